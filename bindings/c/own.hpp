// A user's implementation or operator in its internal form, and internal values as the C ABI shows
// them to a user's functions. In: structs of dlblas.h, copied at registration. Out: plain structs
// for callbacks, on the caller's stack. Read next: bindings/c/register.cpp.
#pragma once

#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/expression.hpp"
#include "core/implementation.hpp"
#include "dlblas/dlblas.h"
#include "registry/registry.hpp"

namespace dlblas {

/// CUDA text, parsed.
struct OwnCuda {
  std::string header;  // its name for the JIT
  std::string entry;
  Expression grid[3], block[3], shared_bytes;
};

/// The first configuration that the user's `allowed` accepts, per problem. Cached, because
/// `allowed` may be Python and is queried by calls. The mutex is never held while the user's
/// function runs.
struct FirstValid {
  struct Hash {
    std::size_t operator()(const Problem& p) const { return p.hash(); }
  };
  std::mutex mutex;
  std::unordered_map<Problem, std::optional<Config>, Hash> known;
};

/// Implementation::user points to this. Deleted once replaced, when no call can still hold it.
struct OwnImplementation {
  OwnImplementation() = default;
  ~OwnImplementation() {
    if (release) release(c.user);
  }
  OwnImplementation(const OwnImplementation&) = delete;
  OwnImplementation& operator=(const OwnImplementation&) = delete;

  void (*release)(void* user) = nullptr;  // of c.user; null: the user's to keep
  const Operator* op = nullptr;
  dlblas_implementation c = {};  // functions, `user` and flags; its pointers to texts are not used
  std::string name, source_hash;
  std::deque<std::string> words;  // the knobs' names and labels, which `table` refers to
  KnobTable table;
  std::vector<Config> listed;  // the only valid configurations, where there are any, as given
  std::vector<Config> sorted;  // the same, to be looked up in
  std::int64_t points = 0;     // configurations to choose from
  Config preset;               // the default, else the first
  bool has_preset = false;
  OwnCuda cuda;
  mutable FirstValid first_valid;
};

inline const OwnImplementation& own_of(const Query& q) { return q.user<OwnImplementation>(); }

/// The private state of a prepared kernel: Kernel::state.
struct OwnState {
  const OwnImplementation* own;
  std::int64_t config[kMaxKnobs];
};
static_assert(sizeof(OwnState) <= Kernel::kStateBytes);

/// The answer of the user's functions, and whether any configuration is valid for the problem.
Support own_supports(const Query& q);

/// A Problem as a user's functions see it. Copied when a predicate outlives the call.
class ProblemView {
 public:
  ProblemView(const Operator& op, const Problem& problem);
  ProblemView(const ProblemView& other) : ProblemView(*other.op_, other.problem_) {}
  ProblemView& operator=(const ProblemView&) = delete;
  const dlblas_problem* get() const { return &view_; }

 private:
  const Operator* op_;
  Problem problem_;
  dlblas_problem_tensor tensors_[kMaxTensors];
  dlblas_value scalars_[kMaxScalars];
  dlblas_problem view_;
};

/// One call as a user's step or reference sees it; `args` outlives it.
class StepView {
 public:
  StepView(const Args& args, const std::int64_t* config, int num_knobs, void* workspace);
  StepView(const StepView&) = delete;
  StepView& operator=(const StepView&) = delete;
  const dlblas_step_args* get() const { return &view_; }

 private:
  dlblas_tensor tensors_[kMaxTensors];
  dlblas_value scalars_[kMaxScalars];
  dlblas_step_args view_;
};

/// dlblas_register. `release(from->user)` is called, on any thread, when nothing can use it any
/// more; if the registration is refused, before this returns.
dlblas_status register_own(dlblas_op_t op, const dlblas_implementation* from,
                           void (*release)(void* user));
/// dlblas_register_operator, likewise.
dlblas_status register_own_operator(const dlblas_operator_def* def, dlblas_op_t* op,
                                    void (*release)(void* user));

/// What dlblas_fail() reported on this thread since the previous call of this; empty if nothing.
std::string take_failure();

/// Refuses a hash that a record cannot hold: the store keeps it as one word of a line.
void check_hash(const std::string& op, const std::string& hash);

/// Fills in the parts of an implementation that come from CUDA text; reads its `c.cuda`.
void read_cuda_text(OwnImplementation& own, Implementation& impl);

/// The digest of the shared object's file that holds this address; empty if there is none.
std::string digest_of_object(const void* address);

}  // namespace dlblas
