// An implementation of an operator: a plain struct of functions, the same for built-in kernels,
// library rivals (oneDNN, cuBLASLt) and users' own. Each function takes the same Query: problem,
// device and the implementation itself, never data. Also the types they use: Support, Kernel,
// Context. Flow: call > validate > [select] > [compile] > [launch].  Read next:
// registry/operator.hpp, kernels/cuda_form.hpp, kernels/cpu_level.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "core/config.hpp"
#include "core/device.hpp"
#include "core/problem.hpp"
#include "core/space.hpp"
#include "core/tensor.hpp"

namespace dlblas {

struct Schema;

/// What a `{}` in a reason stands for: a number, or a tensor, printed under its schema name.
struct ReasonPart {
  constexpr ReasonPart(std::int64_t number) : value(number) {}
  std::int64_t value;
  bool is_tensor = false;
};
/// The tensor at a position of the schema.
constexpr ReasonPart tensor(int position) {
  ReasonPart part(position);
  part.is_tensor = true;
  return part;
}

/// Yes, or no with a reason: a literal with `{}` for up to three numbers or tensors, as in
/// `Support::no("{} is not contiguous", tensor(kX))`. The text is built only when it is shown.
class Support {
 public:
  static Support yes() { return Support(); }
  /// An empty reason does not compile (N counts the terminator).
  template <std::size_t N>
  requires(N > 1) static Support
      no(const char (&reason)[N], ReasonPart a = 0, ReasonPart b = 0, ReasonPart c = 0) {
    Support s;
    s.reason_ = reason;
    s.parts_[0] = a, s.parts_[1] = b, s.parts_[2] = c;
    return s;
  }
  /// A reason printed verbatim, without placeholders.
  static Support no_in_words(std::string reason) {
    Support s;
    s.words_ = std::make_shared<const std::string>(std::move(reason));
    s.reason_ = s.words_->c_str();
    return s;
  }
  explicit operator bool() const { return reason_ == nullptr; }
  /// The reason with its numbers and tensor names filled in; "yes" when supported.
  std::string text(const Schema& schema) const;
  /// For a reason that concerns no operator: why a library cannot be used.
  std::string text() const;

 private:
  Support() = default;
  std::string print(const Schema* schema) const;
  const char* reason_ = nullptr;
  ReasonPart parts_[3] = {0, 0, 0};
  std::shared_ptr<const std::string> words_;  // of no_in_words
};

/// The caller's side of one call: where results and workspace come from, and which threads may run.
/// Plain function pointers, as in LibTorch's shim: torch, Python and the library's own default each
/// fill one in.
struct Context {
  Device device;
  void* stream = nullptr;
  std::int32_t num_threads = 1;
  void* self = nullptr;  // passed back to the functions below
  /// Fills `out->data` (and strides) for a result whose dtype, rank, shape and strides are set.
  /// Returns 0 on success.
  int (*new_output)(void* self, int index, TensorView* out) = nullptr;
  /// Workspace only; may be called several times; the memory lives until the call ends. Null on
  /// failure.
  void* (*alloc)(void* self, std::size_t bytes, std::size_t align) = nullptr;
  /// Runs fn over [begin, end) in chunks of at least `grain`; returns when all are done.
  void (*parallel_for)(void* self, std::int64_t begin, std::int64_t end, std::int64_t grain,
                       void (*fn)(std::int64_t begin, std::int64_t end, void* ctx),
                       void* ctx) = nullptr;

  /// parallel_for over any callable `void(int64 begin, int64 end)`; no allocation.
  template <typename F>
  void run(std::int64_t begin, std::int64_t end, std::int64_t grain, F&& body) const {
    if (num_threads <= 1 || end - begin <= grain) {
      if (begin < end) body(begin, end);
      return;
    }
    using Body = std::remove_reference_t<F>;
    parallel_for(
        self, begin, end, grain,
        [](std::int64_t b, std::int64_t e, void* ctx) { (*static_cast<Body*>(ctx))(b, e); },
        const_cast<void*>(static_cast<const void*>(&body)));
  }
};

/// What the JIT compiles for one entry of a kernel: a header of the source tree and a name
/// expression in it. Traits and configuration are its template arguments, so no other code is
/// generated.
struct KernelSource {
  std::string include;  // "ops/norm/cuda/norm_ring.cuh"
  std::string entry;    // "dlblas::norm::norm_ring<dlblas::norm::NormCudaTraits{…}, …>"
  std::int32_t dynamic_shared_bytes = 0;  // the most a launch will ask for
};

namespace cuda {
struct Function;  // a loaded entry: src/cuda/cuda.hpp
}

struct Kernel;
struct Part;   // core/nested.hpp
class Nested;  // the same
/// One step of a kernel. Returns 0, or the implementation's own error code (a typed LaunchError
/// reports it).
using StepFn = int (*)(const Args& args, const Context& context, const Kernel& kernel,
                       void* workspace);

/// Prepared code: at most eight steps sharing one workspace. A step is a host function: a CPU
/// kernel, a library call, or the parameter packer that launches one of `entries`.
struct Kernel {
  static constexpr int kMaxSteps = 8;
  static constexpr int kMaxEntries = 8;
  static constexpr std::size_t kStateBytes = 192;
  const struct Implementation* implementation = nullptr;
  StepFn steps[kMaxSteps] = {};
  const cuda::Function* entries[kMaxEntries] = {};  // of `sources`, in order; loaded by compile
  std::int32_t num_steps = 0;
  std::size_t workspace_bytes = 0;
  std::size_t zeroed_bytes = 0;  // of the workspace's first: a step before the others
  // The prepared Implementation::parts, in order; made by dispatch, which adds their workspace to
  // this one.
  const std::unique_ptr<const Nested>* parts = nullptr;
  std::int32_t num_parts = 0;
  void (*release)(const Kernel& kernel) = nullptr;  // of what `state` points to; may be null
  alignas(16) std::byte state[kStateBytes] =
      {};  // traits, configuration, handles: the implementation's own

  /// The prepared part (core/nested.hpp). Throws Error(kInternal) if there is none.
  const Nested& part(int index) const;
  template <typename S>
  void store(const S& s) {
    static_assert(sizeof(S) <= kStateBytes && std::is_trivially_copyable_v<S>);
    std::memcpy(state, &s, sizeof(S));
  }
  template <typename S>
  const S& load() const {
    return *reinterpret_cast<const S*>(state);
  }
};

/// A kernel of these steps, in order. `state` is what each step loads at every call.
template <typename S>
Kernel make_kernel(std::initializer_list<StepFn> steps, const S& state,
                   std::size_t workspace_bytes = 0) {
  Kernel kernel;
  for (const StepFn step : steps) kernel.steps[kernel.num_steps++] = step;
  kernel.store(state);
  kernel.workspace_bytes = workspace_bytes;
  return kernel;
}

struct Implementation;

/// What each function of an implementation is asked about. Holds references to all three: copy what
/// must outlive the call (QueryCopy).
struct Query {
  const Problem& problem;
  const DeviceInfo& device;
  const Implementation& self;

  /// What Implementation::user points to; its creator knows the type.
  template <typename T>
  const T& user() const;
  /// The same question about another problem.
  Query about(const Problem& other) const { return {other, device, self}; }
};

/// A Query that owns problem and device: for the rules of a Space, which may outlive them.
class QueryCopy {
 public:
  explicit QueryCopy(const Query& q) : problem_(q.problem), device_(q.device), self_(q.self) {}
  operator Query() const { return {problem_, device_, self_}; }

 private:
  Problem problem_;
  DeviceInfo device_;
  const Implementation& self_;
};

struct ImplementationFlags {
  // One configuration gives a row the same bits in every run, in any batch, on any number of
  // threads. Only such implementations serve calls that request this (kDeterministic), and
  // `same_bits` says which of them may be chosen.
  bool deterministic = false;
  // The same call has the same bits in every run, with one configuration. Calls that request this
  // (kRepeatable) are served by such implementations alone.
  bool repeatable = true;
  bool capturable = false;  // may run under CUDA graph capture
  bool oracle = false;      // the reference itself: always there, never searched, chosen last
  bool user = false;  // registered from outside; loses to built-in ones until measured or pinned
  bool local =
      false;  // made in this process and nowhere else (a closure): no worker can measure it
};

struct Implementation {
  const char* name = nullptr;  // "cpu_avx512", "onednn", "reference"
  DeviceType backend = DeviceType::kCpu;
  std::int32_t min_arch = 0;  // CUDA compute capability × 10
  std::int32_t max_arch = 1 << 20;
  const char* source_hash = "";        // source_hash<"ops/x/x_avx512.cpp">(): made by the build
  const char* (*version)() = nullptr;  // of the library that does the work; null: the source is all
  ImplementationFlags flags;
  const KnobTable* knobs = nullptr;             // null: nothing to search
  const void* user = nullptr;                   // what tells it from others over the same functions
  void (*release)(const void* user) = nullptr;  // when it was replaced and no call can be in it

  Support (*supports)(const Query&) = nullptr;
  /// Under kDeterministic: may it be chosen without a pin? All implementations that say yes give a
  /// row the same bits, in every configuration that their `constrain` allows under that flag, so
  /// neither the batch size nor a measurement can change them. The answer must not depend on the
  /// batch size or the threads. Null: yes.
  Support (*same_bits)(const Query&) = nullptr;
  /// Narrows the space by predicates; may be null (the whole product of the knobs).
  void (*constrain)(const Query&, Space&) = nullptr;
  /// The default configuration, inside the space; may be null when there are no knobs.
  Config (*heuristic)(const Query&) = nullptr;
  /// Predicted milliseconds; may be null.
  double (*estimate)(const Query&, const Config&) = nullptr;
  Kernel (*prepare)(const Query&, const Config&) = nullptr;
  /// The entries that the JIT compiles for this problem and configuration, at most
  /// Kernel::kMaxEntries; null where there is nothing to compile. Pure: it runs without a GPU.
  std::vector<KernelSource> (*sources)(const Query&, const Config&) = nullptr;
  /// The calls to other operators that the steps make, in the order of Kernel::part:
  /// core/nested.hpp. Each call is selected by its own operator; if nothing serves one of them,
  /// this implementation is unsupported too. Null: none.
  std::vector<Part> (*parts)(const Query&, const Config&) = nullptr;

  /// Identifies the code behind a measurement: the source's hash and, after a dash, the library's
  /// version, or the digest of live sources (DLBLAS_SOURCE_DIR). A record with another identity is
  /// stale. Opens the library, so registration does not call it. For one with parts, use dispatch's
  /// Identity, which adds what serves them.
  std::string identity() const {
    std::string made_of = version ? version() : "";
    if (sources && live_sources) made_of += live_sources();
    return made_of.empty() ? source_hash : source_hash + ("-" + made_of);
  }
  /// The digest of kernel sources that may be edited while the process runs; set once, by src/jit.
  static inline const char* (*live_sources)() = nullptr;

  static const KnobTable& no_knobs();
  const KnobTable& table() const { return knobs ? *knobs : no_knobs(); }
};

template <typename T>
const T& Query::user() const {
  return *static_cast<const T*>(self.user);
}

/// The configurations that a search may try: the knobs' product, narrowed by `constrain`.
Space make_space(const Query& q);
/// What `heuristic` picks; without one, the empty configuration.
Config default_config(const Query& q);

}  // namespace dlblas
