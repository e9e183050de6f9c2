// Programmatic dependent launch: a kernel starts while the previous one on the stream still runs.
// Saves 1–3 µs per kernel in chains of small kernels. For kernels launched with
// cuda::Launch::dependent; otherwise, and below sm_90, both functions do nothing. Read
// next: src/cuda/cuda.hpp (Launch).
#pragma once

namespace dlblas {

/// Waits until the kernels before this one have ended and their writes are visible. Every thread
/// calls it before it reads or writes global memory that another kernel may touch.
__device__ __forceinline__ void wait_for_dependencies() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets the next kernel occupy what this one leaves free, once all blocks have called this or
/// ended. It gives no visibility: the next kernel's wait does that.
__device__ __forceinline__ void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace dlblas
