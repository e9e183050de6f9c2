// The kernel that torch's dispatcher calls, for CPU and CUDA tensors alike: one function per
// operation. In: a boxed stack of handles and scalars, which the kernel owns. Out: new tensors of
// torch's allocator on the stack, or tensors written; on failure torch raises a RuntimeError with
// the text that dlblas_last_error() also has. Flow: [torch] > kernel > dlblas_call. Read next:
// bindings/torch/kernel.cpp.
#pragma once

#include "bindings/torch/operation.hpp"

namespace dlblas::torch {

/// A boxed kernel bound to `operation`, which must live as long as the process; null once
/// kMaxKernels are bound.
BoxedKernel bind_kernel(const Operation& operation);
inline constexpr int kMaxKernels = 1024;

/// How many calls of this thread have failed in a kernel. If it grew during a call, the typed error
/// of that call is in dlblas_last_error().
std::uint64_t num_failures();

/// False while this thread's caller has another form for rows at several strides: the kernel then
/// refuses them, and does not copy them.
inline thread_local constinit bool t_joins_rows = true;

}  // namespace dlblas::torch
