// LibTorch's stable C functions through our own prototypes, found in the libtorch that this process
// has loaded: nothing of torch at build time, and one binary for every torch from 2.10 on. In: a
// process with torch. Out: `shims`, a table of its functions, and torch's codes of dtypes and
// devices. Functions outside the table are not used. Read next: bindings/torch/kernel.cpp (one
// call).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "dlblas/dlblas.h"

namespace dlblas::torch {

/// torch's 64-bit slot of a boxed kernel's stack: a scalar's bits, a handle, or for an optional
/// argument a pointer to another slot, null if the argument is absent.
using StableValue = std::uint64_t;
using BoxedKernel = void (*)(StableValue* stack, std::uint64_t num_arguments,
                             std::uint64_t num_results);
struct Tensor;   // an at::Tensor; the receiver of a handle owns it
struct Library;  // a torch::Library
struct String;

// One line per function: member, symbol, result, arguments. A code of 0 means success.
#define DLBLAS_TORCH_FUNCTIONS(F)                                                                 \
  F(dim, aoti_torch_get_dim, int, (Tensor*, std::int64_t*))                                       \
  F(sizes, aoti_torch_get_sizes, int, (Tensor*, std::int64_t**))                                  \
  F(strides, aoti_torch_get_strides, int, (Tensor*, std::int64_t**))                              \
  F(dtype, aoti_torch_get_dtype, int, (Tensor*, std::int32_t*))                                   \
  F(device_type, aoti_torch_get_device_type, int, (Tensor*, std::int32_t*))                       \
  F(device_index, aoti_torch_get_device_index, int, (Tensor*, std::int32_t*))                     \
  F(const_data, torch_get_const_data_ptr, int, (Tensor*, const void**))                           \
  F(mutable_data, torch_get_mutable_data_ptr, int, (Tensor*, void**))                             \
  F(empty_strided, aoti_torch_empty_strided, int,                                                 \
    (std::int64_t, const std::int64_t*, const std::int64_t*, std::int32_t, std::int32_t,          \
     std::int32_t, Tensor**))                                                                     \
  F(delete_tensor, aoti_torch_delete_tensor_object, int, (Tensor*))                               \
  F(copy_into, aoti_torch_copy_, int, (Tensor*, Tensor*, std::int32_t))                           \
  F(string_data, torch_string_c_str, int, (String*, const char**))                                \
  F(delete_string, torch_delete_string, int, (String*))                                           \
  F(num_threads, torch_get_num_threads, int, (std::uint32_t*))                                    \
  F(parallel_for, torch_parallel_for, int,                                                        \
    (std::int64_t, std::int64_t, std::int64_t, void (*)(std::int64_t, std::int64_t, void*),       \
     void*))                                                                                      \
  F(grad_enabled, aoti_torch_grad_mode_is_enabled, bool, ())                                      \
  F(library_fragment, aoti_torch_library_init_fragment, int,                                      \
    (const char*, const char*, std::uint32_t, Library**))                                         \
  F(library_kernels, aoti_torch_library_init_impl, int,                                           \
    (const char*, const char*, const char*, std::uint32_t, Library**))                            \
  F(library_define, aoti_torch_library_def, int, (Library*, const char*))                         \
  F(library_kernel, torch_library_impl, int, (Library*, const char*, BoxedKernel, std::uint64_t)) \
  F(check, aoti_torch_check, void, (bool, const char*, const char*, std::uint32_t, const char*))

struct Shims {
#define DLBLAS_TORCH_MEMBER(member, symbol, result, arguments) result(*member) arguments;
  DLBLAS_TORCH_FUNCTIONS(DLBLAS_TORCH_MEMBER)
#undef DLBLAS_TORCH_MEMBER
  // Optional functions follow. Before 2.13 an optional argument's slot is freed with `delete`.
  int (*delete_value)(StableValue*) = nullptr;
  // Makes another handle of a tensor. Without it, a call with a kept view fails.
  int (*new_handle)(Tensor*, Tensor**) = nullptr;
  // False for the tensor that torch makes of None where a tensor is not optional. A torch without
  // this function refuses such a call with its own message.
  int (*is_defined)(const Tensor*, bool*) = nullptr;
  // c10::TensorImpl::requires_grad() of libc10: the only fact used here that no C function returns.
  // A torch without it does not refuse such tensors at the call; it warns in backward().
  bool (*impl_requires_grad)(const void* impl) = nullptr;
  // torch::autograd::impl::bump_version() of libtorch_cpu, which throws on an inference tensor
  // outside inference mode. Without it, the tensor is copied into itself instead.
  void (*bump_version)(const Tensor&) = nullptr;
  // at::Context::deterministicAlgorithms() const of libtorch_cpu, and at::globalContext(): the
  // setting of torch.use_deterministic_algorithms(). Without them dlblas.repeatable() alone
  // decides.
  bool (*deterministic)(const void* context) = nullptr;
  const void* global_context = nullptr;
  // torch::jit::tracer::getTracingState() of libtorch_cpu: a std::shared_ptr, whose first word is
  // null unless torch.jit.trace() records this thread. Without it a trace records what runs here.
  const void* const* (*tracing_state)() = nullptr;
  // From libtorch_cuda: null in a torch without CUDA.
  int (*current_cuda_stream)(std::int32_t device, void** stream) = nullptr;

  std::uint64_t (*abi_version)() = nullptr;  // major, minor and patch in the three upper bytes
  std::int32_t cpu = 0, cuda = 0;            // torch's codes of devices
};
extern Shims shims;

/// True if autograd follows this tensor.
inline bool requires_grad(const Tensor* tensor) {
  // An at::Tensor is one pointer, to its implementation.
  return shims.impl_requires_grad &&
         shims.impl_requires_grad(*reinterpret_cast<const void* const*>(tensor));
}

/// True if torch.jit.trace() records what this thread calls.
inline bool is_traced() { return shims.tracing_state && *shims.tracing_state(); }

/// The flags that torch's own settings add to a call's.
inline std::uint32_t torch_flags() {
  const bool same_bits =
      shims.deterministic && shims.global_context && shims.deterministic(shims.global_context);
  return same_bits ? DLBLAS_REPEATABLE : 0;
}

/// Fills `shims` once per process. Returns empty, or the reason why torch cannot be reached; then
/// the next call tries again.
std::string load_shims();
/// The file and the version ("2.11.0") of the libtorch that load_shims() found; empty before that,
/// or if torch does not report them.
std::string library_path();
std::string library_version();

/// The DLPack dtype for torch's code; a code that is no number type of DLPack's maps to one that
/// the library refuses by name.
dlblas_dtype dtype_of(std::int32_t torch_code);
/// The reverse; -1 for a dtype that torch lacks.
std::int32_t torch_code(dlblas_dtype dtype);

}  // namespace dlblas::torch
