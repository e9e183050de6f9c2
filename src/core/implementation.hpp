// What an implementation of an operator is: a plain struct of functions, the same for built-in
// kernels, library rivals (oneDNN, cuBLASLt) and users' own. Also what it yields: Support, Kernel,
// Context. `supports`, `space`, `heuristic`, `estimate` and `prepare` see the Problem and the
// device, never data. Flow: call > validate > [select] > [compile] > [launch].  Read next:
// registry/operator.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/config.hpp"
#include "core/device.hpp"
#include "core/problem.hpp"
#include "core/space.hpp"
#include "core/tensor.hpp"

namespace dlblas {

/// Yes, or no with a reason: a literal with `{}` for up to three integers. Text is made by
/// `explain` alone.
class Support {
 public:
  static constexpr Support yes() { return Support(); }
  /// An empty reason does not compile (N counts the terminator).
  template <std::size_t N>
  requires(N > 1) static constexpr Support
      no(const char (&reason)[N], std::int64_t a = 0, std::int64_t b = 0, std::int64_t c = 0) {
    Support s;
    s.reason_ = reason;
    s.numbers_[0] = a, s.numbers_[1] = b, s.numbers_[2] = c;
    return s;
  }
  /// A user's reason, as it is: no numbers go into it. It lives as long as the process.
  static Support no_in_words(const char* reason) {
    Support s;
    s.reason_ = reason;
    s.as_it_is_ = true;
    return s;
  }
  constexpr explicit operator bool() const { return reason_ == nullptr; }
  std::string text() const;  // the reason with its numbers; "yes" when supported

 private:
  constexpr Support() = default;
  const char* reason_ = nullptr;
  std::int64_t numbers_[3] = {0, 0, 0};
  bool as_it_is_ = false;
};

/// The caller's side of one call: where results and workspace come from, and which threads may run.
/// Plain function pointers, LibTorch's shim shape: torch, Python and the library's own default each
/// fill one.
struct Context {
  Device device;
  void* stream = nullptr;
  std::int32_t num_threads = 1;
  void* self = nullptr;  // passed back to the functions below
  /// Fills `out->data` (and strides) for a result whose dtype, rank, shape and strides are set. 0
  /// on success.
  int (*new_output)(void* self, int index, TensorView* out) = nullptr;
  /// Workspace only; may be called several times; lives until the call ends. Null on failure.
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

/// What the JIT compiles for one entry of a kernel: a header of the tree and a name expression in
/// it. Traits and configuration are its template values, so nothing else is generated.
struct KernelSource {
  std::string include;  // "ops/norm/norm.cuh"
  std::string entry;    // "dlblas::norm_rows<dlblas::NormTraits{…}, dlblas::NormGpuConfig{…}>"
  std::int32_t dynamic_shared_bytes = 0;  // the most a launch will ask for
};

namespace cuda {
struct Function;  // a loaded entry: src/cuda/cuda.hpp
}

struct Kernel;
/// One step of a kernel: 0, or an implementation's own error code (a typed LaunchError names it).
using StepFn = int (*)(const Args& args, const Context& context, const Kernel& kernel,
                       void* workspace);

/// Prepared code: at most eight steps sharing one workspace. A step is a host function: a CPU
/// kernel, a library's call, or the parameter packer that launches one of `entries`.
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
  void (*release)(const Kernel& kernel) = nullptr;  // of what `state` points to; may be null
  alignas(16) std::byte state[kStateBytes] =
      {};  // traits, configuration, handles: the implementation's own

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

struct ImplementationFlags {
  // One configuration gives a row the same bits in every run, in any batch, on any number of
  // threads. Only such implementations serve where a call asks for that (kDeterministic), and
  // `same_bits` says which of them may be chosen.
  bool deterministic = false;
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
  const char* source_hash = "";  // source_hash("ops/norm/norm_avx512.cpp"): see tools of the build
  const char* (*version)() = nullptr;  // of the library that does the work; null: the source is all
  ImplementationFlags flags;
  const KnobTable* knobs = nullptr;  // null: nothing to search
  void* user = nullptr;
  void (*release)(void* user) = nullptr;  // when it was replaced and no call can be in it

  Support (*supports)(const Problem&, const DeviceInfo&, const Implementation&) = nullptr;
  /// Under kDeterministic: may it be chosen without a pin? All that say yes, in every configuration
  /// that their `constrain` leaves there, give a row the same bits, so neither a batch's size nor a
  /// measurement can change them. Sizes of the batch and threads have no say in it. Null: yes.
  Support (*same_bits)(const Problem&, const DeviceInfo&, const Implementation&) = nullptr;
  /// Narrows the space by predicates; may be null (the whole product of the knobs).
  void (*constrain)(const Problem&, const DeviceInfo&, Space&) = nullptr;
  /// The default configuration, inside the space; may be null when there are no knobs.
  Config (*heuristic)(const Problem&, const DeviceInfo&) = nullptr;
  /// The same two for a user's implementation, whose space is data behind `user`; may be null.
  void (*own_constrain)(const Problem&, Space&, const Implementation&) = nullptr;
  Config (*own_default)(const Problem&, const Implementation&) = nullptr;
  /// Predicted milliseconds; may be null.
  double (*estimate)(const Problem&, const Config&, const DeviceInfo&,
                     const Implementation&) = nullptr;
  Kernel (*prepare)(const Problem&, const Config&, const DeviceInfo&,
                    const Implementation&) = nullptr;
  /// The entries that the JIT compiles for this problem and configuration, at most
  /// Kernel::kMaxEntries; null where there is nothing to compile. Pure: it runs without a GPU.
  std::vector<KernelSource> (*sources)(const Problem&, const Config&, const DeviceInfo&,
                                       const Implementation&) = nullptr;

  /// What a measurement was made of: the source's hash and, after a dash, the library's version, or
  /// the digest of live sources (DLBLAS_SOURCE_DIR). A record of another identity is stale. Opens
  /// the library, so registering does not ask for it.
  std::string identity() const {
    std::string made_of = version ? version() : "";
    if (sources && live_sources) made_of += live_sources();
    return made_of.empty() ? source_hash : source_hash + ("-" + made_of);
  }
  /// Who knows whether kernels are compiled from a tree that may be edited; set once, by src/jit.
  static inline const char* (*live_sources)() = nullptr;

  static const KnobTable& no_knobs();
  const KnobTable& table() const { return knobs ? *knobs : no_knobs(); }
  Space space(const Problem& problem, const DeviceInfo& device) const {
    Space s(table());
    if (constrain) constrain(problem, device, s);
    if (own_constrain) own_constrain(problem, s, *this);
    return s;
  }
  Config default_config(const Problem& problem, const DeviceInfo& device) const {
    if (own_default) return own_default(problem, *this);
    return heuristic ? heuristic(problem, device) : Config{};
  }
};

}  // namespace dlblas
