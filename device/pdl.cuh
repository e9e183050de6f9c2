// Programmatic dependent launch: a kernel starts while the one before it on the stream still runs.
// 1–3 µs less per kernel in chains of small ones. For kernels launched with
// cuda::Launch::dependent; launched otherwise, and below sm_90, both functions do nothing. Read
// next: src/cuda/cuda.hpp (Launch).
#pragma once

namespace dlblas {

/// The kernels before this one have ended and what they wrote is visible. Every thread calls it
/// before it reads or writes global memory that another kernel may touch.
__device__ __forceinline__ void wait_for_dependencies() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// The next kernel may start to occupy what this one leaves free, once all its blocks said so or
/// ended. It gives no visibility: the next kernel's wait does that.
__device__ __forceinline__ void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace dlblas
