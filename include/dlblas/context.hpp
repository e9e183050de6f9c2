// The caller's side of a call: stream, threads, memory and parallel_for, all from one host object.
// In: any class with some of the members below. Out: the C ABI's dlblas_context, made of plain
// function pointers. No std::function, no allocation. Read next: operator.hpp.
#ifndef DLBLAS_CONTEXT_HPP_
#define DLBLAS_CONTEXT_HPP_

#include <dlblas/dlblas.h>
#include <dlblas/cpp20.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

#include <dlblas/tensor.hpp>

namespace dlblas {
inline namespace v1 {

/// The loop body that a parallel_for runs: call it on disjoint ranges that together cover
/// [begin, end). It never throws.
class Body {
 public:
  Body(void (*fn)(std::int64_t, std::int64_t, void*), void* ctx) : fn_(fn), ctx_(ctx) {}
  void operator()(std::int64_t begin, std::int64_t end) const { fn_(begin, end, ctx_); }

 private:
  void (*fn_)(std::int64_t, std::int64_t, void*);
  void* ctx_;
};

/// Requests memory for one result: `bytes` bytes, contiguous, on `device`, aligned to 16 bytes.
struct NewOutput {
  int index;  // of the result
  DType dtype;
  Dims shape;
  std::size_t bytes;
  Device device;
};

namespace detail {
template <typename H>
concept HasAlloc = requires(H& h) {
  { h.alloc(std::size_t{}, std::size_t{}) } -> std::convertible_to<void*>;
};
template <typename H>
concept HasParallelFor = requires(H& h, Body body) {
  h.parallel_for(std::int64_t{}, std::int64_t{}, std::int64_t{}, body);
};
template <typename H>
concept HasNewOutput = requires(H& h, const NewOutput& spec) {
  { h.new_output(spec) } -> std::convertible_to<void*>;
};

inline DType dtype_from(dlblas_dtype code) {
  for (int i = 0; i < kNumDTypes; ++i)
    if (kDTypes[i].code.code == code.code && kDTypes[i].code.bits == code.bits)
      return static_cast<DType>(i);
  raise(DLBLAS_INTERNAL, "result", "has a dtype this header does not know", "a known DLPack code",
        std::to_string(code.code));
}

// Exceptions must not enter the library. One from the caller's memory functions becomes a failed
// allocation there (LaunchError here). One from its parallel_for would leave work undone, so it
// terminates the program (noexcept).
template <typename H>
void* call_alloc(void* self, std::size_t bytes, std::size_t align) noexcept {
  try {
    return static_cast<H*>(self)->alloc(bytes, align);
  } catch (...) {
    return nullptr;
  }
}
template <typename H>
int call_new_output(void* self, std::int32_t index, dlblas_tensor* out) noexcept {
  try {
    const Dims shape(
        std::span<const std::int64_t>(out->shape, static_cast<std::size_t>(out->ndim)));
    const DType dtype = dtype_from(out->dtype);
    const auto bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
    const Device device = {static_cast<Device::Type>(out->device.type), out->device.index};
    out->data = static_cast<H*>(self)->new_output(NewOutput{index, dtype, shape, bytes, device});
    return out->data || bytes == 0 ? 0 : 1;
  } catch (...) {
    return 1;
  }
}
template <typename H>
void call_parallel_for(void* self, std::int64_t begin, std::int64_t end, std::int64_t grain,
                       void (*fn)(std::int64_t, std::int64_t, void*), void* ctx) noexcept {
  static_cast<H*>(self)->parallel_for(begin, end, grain, Body(fn, ctx));
}
}  // namespace detail

/// The caller's side of a call: memory, threads, stream, and the guarantees required of the
/// results. Cheap to copy; the host object must outlive all copies.
class Context {
 public:
  /// Uses the library's own memory and threads, and on a GPU the device's default stream.
  Context() { c_.size = sizeof c_; }
  /// Uses whichever of these members `host` has, and the library's own for the rest:
  ///   void* alloc(size_t bytes, size_t align)      workspace; the host's again when the call ends
  ///   void* new_output(const NewOutput& spec)      memory for a result; stays the host's own
  ///   void parallel_for(int64_t begin, int64_t end, int64_t grain, Body body)   returns when all
  ///   is done
  /// On a GPU, memory is handed over and given back in stream order: kernels that use the workspace
  /// may still be pending on the stream when the call returns.
  template <typename H>
  requires(detail::HasAlloc<H> || detail::HasParallelFor<H> ||
           detail::HasNewOutput<H>) explicit Context(H& host, int num_threads = 0,
                                                     void* stream = nullptr)
      : Context() {
    c_.self = &host;
    c_.num_threads = num_threads;
    c_.stream = stream;
    if constexpr (detail::HasAlloc<H>) c_.alloc = detail::call_alloc<H>;
    if constexpr (detail::HasNewOutput<H>) c_.new_output = detail::call_new_output<H>;
    if constexpr (detail::HasParallelFor<H>) c_.parallel_for = detail::call_parallel_for<H>;
  }
  /// Threads a call may use; 0: the library's default (DLBLAS_NUM_THREADS).
  Context& threads(int count) {
    c_.num_threads = count;
    return *this;
  }
  /// On a GPU, the stream to work on: a CUstream or cudaStream_t of the tensors' device.
  Context& stream(void* handle) {
    c_.stream = handle;
    return *this;
  }
  /// A row gets the same bits in any batch, on any number of threads, before and after tuning,
  /// provided that the machine and the tensors' layout and alignment are the same.
  Context& deterministic(bool on = true) { return flag(DLBLAS_DETERMINISTIC, on); }
  /// The same call gets the same bits in every run, until a search stores another winner.
  Context& repeatable(bool on = true) { return flag(DLBLAS_REPEATABLE, on); }
  /// f32 products may round their inputs to TF32.
  Context& allow_tf32(bool on = true) { return flag(DLBLAS_ALLOW_TF32, on); }
  /// The C ABI's view.
  const dlblas_context* get() const { return &c_; }
  /// DLBLAS_DETERMINISTIC, DLBLAS_ALLOW_TF32, DLBLAS_REPEATABLE.
  std::uint32_t flags() const { return flags_; }

 private:
  Context& flag(std::uint32_t bit, bool on) {
    flags_ = on ? flags_ | bit : flags_ & ~bit;
    return *this;
  }
  dlblas_context c_ = {};
  std::uint32_t flags_ = 0;
};

}  // namespace v1
}  // namespace dlblas

#endif  // DLBLAS_CONTEXT_HPP_
