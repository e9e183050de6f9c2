// One call, five stages; each is a function from one plain value to the next, in a file of its own:
//
//   dlblas_args ──call──▶ Args ──validate──▶ Problem ──select──▶ Plan ──compile──▶ Kernel
//   ──launch──▶ results
//
// call knows no dtypes; validate chooses nothing; select touches no data; compile reads no tensor;
// launch decides nothing. Operator calls never measure. Follow one call in docs/flow.md.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/implementation.hpp"
#include "core/nested.hpp"
#include "dlblas/dlblas.h"
#include "registry/registry.hpp"
#include "store/store.hpp"

namespace dlblas {

/// Which source a choice came from, in lookup order.
enum class Why : std::uint8_t { kPinned, kStore, kShipped, kModel, kHeuristic };
std::string_view name_of(Why why);

/// How many decisions the fast map keeps for one operator; beyond it, those that no recent call
/// used are dropped. At most 1 KiB each, so 8 MiB per operator that sees so many problems.
inline constexpr std::uint32_t kMaxPlans = 8192;

/// A kernel with the parts that its steps call: what a plan owns.
struct Prepared {
  Kernel kernel;
  std::vector<std::unique_ptr<const Nested>> parts;
  bool capturable = true;  // into a CUDA graph: the implementation and all parts; a CPU's is moot

  ~Prepared() {
    if (kernel.release) kernel.release(kernel);
  }
};

/// The choice for a Problem: an implementation, its configuration, and why. A plan from select may
/// be held while the call is in flight (core/in_flight.hpp); the tuner's plans end with its run.
struct Plan {
  Problem problem;
  const Implementation* implementation = nullptr;
  Config config;
  Why why = Why::kHeuristic;
  mutable std::atomic<bool> used{false};  // by a later call, since the map was full the last time
  mutable std::atomic<const Prepared*> prepared{nullptr};  // filled by compile, owned

  Plan() = default;
  ~Plan() { delete prepared.load(std::memory_order_relaxed); }
};

/// call: names and defaults. Throws Error(kArgument) for a missing, unknown or repeated argument
/// and for a scalar of the wrong kind. Reads nothing of a tensor but its descriptor.
void bind(const Form& form, const dlblas_args& call, Args& args);

/// validate: letters, dtypes, devices, layouts, aliasing. Fills args.letters and the specs of
/// results to be allocated (data == nullptr), and the Problem. Throws the typed error that names
/// the argument.
void validate(const Operator& op, const dlblas_args& call, int threads, Args& args,
              Problem& problem);

/// select: the fast map; else pin, store, shipped table, model, heuristic. Throws
/// Error(kUnsupported) with every candidate's reason when nothing fits. Call only while in flight:
/// the plan is freed once it is replaced and the call has returned.
const Plan& select(const Operator& op, const Problem& problem);

/// compile: the Plan's kernel, prepared once; sources go through the JIT. Throws Error(kCompile),
/// which names warmup if `stream` is being captured and the kernel is cold. Under capture, if the
/// plan's implementation or a part of it may not be captured, it returns the kernel of
/// select(for_capture(problem)), or throws that one's Error(kUnsupported).
const Kernel& compile(const Plan& plan, void* stream = nullptr);
/// The same problem, restricted to what may be captured (ImplementationFlags::capturable).
Problem for_capture(Problem problem);
/// A bit beside ProblemFlag, set by for_capture alone. Not part of a measurement's key.
inline constexpr std::uint8_t kCapturing = 128;

/// launch: results through the context's new_output, workspace through its alloc, then the steps.
void launch(const Kernel& kernel, Args& args, const Context& context);
/// The same with existing results and an existing workspace; null: the context's. False: there was
/// no element to write.
bool launch_into(const Kernel& kernel, const Args& args, const Context& context, void* workspace);
/// The steps alone, with existing results and workspace: what the tuner times. Returns 0, or the
/// failing step's code.
int run_steps(const Kernel& kernel, const Args& args, const Context& context, void* workspace);

// ---- cold paths beside the call ----------------------------------------------------------------

/// May this implementation serve the problem here: backend, arch, DLBLAS_DISABLE, deterministic,
/// then its own `supports`.
Support check_support(const Query& q);

/// May it be chosen by a measurement, the model or the order: check_support, and `same_bits` under
/// kDeterministic. There, only a pin chooses a user's implementation: measurements must not change
/// bits.
Support check_choice(const Query& q);

/// A problem's key in the store: operator, schema hash, dims, dtypes, …, CPU model, ISA and
/// threads.
Fields store_key(const Operator& op, const Problem& problem);
/// The name in keys and messages: "row_strided".
std::string_view name_of(Layout layout);
inline constexpr int kLastLayout = static_cast<int>(Layout::kTokensOuter);

/// `T=16 C=4096,bf16,cuda:0`: a problem in a log line, with the dtype of its first tensor present.
std::string log_fields(const Operator& op, const Problem& problem);

/// Identifies the code behind a configuration's measurement: Implementation::identity and, if there
/// are parts, the digest of what serves them.
class Identity {
 public:
  explicit Identity(const Query& q) : q_(q), own_(q.self.identity()) {}
  const std::string& of(const Config& config);
  /// True if this stored candidate has this identity.
  bool holds(const Record::Candidate& c);

 private:
  Query q_;
  std::string own_;
  std::map<std::string, std::string> with_parts_;  // by the configuration's text
};

/// A measured candidate of a store that this process may serve: known, supported, of the current
/// source, with a configuration inside its space. Records are data from outside: everything is
/// checked again here.
struct CurrentRow {
  const Implementation* implementation;
  Config config;
  bool is_default;  // the default configuration of the first supporting implementation
  const Record::Candidate* candidate;
  const Fields* env;  // what it was measured under
};
/// In the order of a search space, so that a tie has the same winner here as in the race.
std::vector<CurrentRow> current_rows(const Operator& op, const Problem& problem,
                                     const Merged& merged);
/// The failure that a store holds for a configuration of the current source (wrong_result,
/// launch_error, …), or null.
const Record::Candidate* known_failure(const Merged& merged, const Query& q, const Config& config);
/// The row that wins by store/ranking, or null.
const CurrentRow* best_row(const std::vector<CurrentRow>& rows);

/// One row of `explain`.
struct CandidateRow {
  const Implementation* implementation;
  Support support = Support::yes();
  Config config;  // what it would run with
  // From a current record: the time of the configuration chosen, else of the one shown for the
  // implementation (store/ranking); -1: never measured.
  double best_ms = -1;
  double estimate_ms = -1;  // the model's word; -1: none
  std::string failure;      // how this configuration failed when it was measured; mostly empty
  std::string note;         // in its own words
  bool chosen = false;
  int samples = 0;  // that best_ms is made of
};
struct Explanation {
  const Operator* op;
  Problem problem;
  std::vector<CandidateRow> candidates;
  std::size_t measured = 0;    // current rows of this key in the results store
  const Plan* plan = nullptr;  // null: a call would throw, and `why` is its message
  std::vector<std::unique_ptr<const Plan>> parts;  // of the plan's implementation: what serves each
  std::string why;                                 // one sentence
};
/// The candidates alone: what errors print.
Explanation explain_candidates(const Operator& op, const Problem& problem);
/// The candidates, the choice and its reason. Throws only what a bad Problem would.
Explanation explain(const Operator& op, const Problem& problem);
/// `fold`: on a machine without a GPU, a CPU problem's table folds the implementations for GPUs
/// into one line, and an absent GPU's table those for the CPU.
std::string print_table(const Explanation& explanation, bool fold = false);
std::string print_json(const Explanation& explanation);
/// `x [T=7, C=4096] f32`: the letters as bound, for messages.
std::string print_problem(const Operator& op, const Problem& problem);

/// Process-wide pin of an operator; empty implementation: unpin. Throws for an unknown name or a
/// bad config.
void pin(const Operator& op, std::string_view implementation, std::string_view config);

/// Drops the fast map's decisions for an operator (after a registration, a pin, a published
/// result).
void forget(const Operator& op);

}  // namespace dlblas
