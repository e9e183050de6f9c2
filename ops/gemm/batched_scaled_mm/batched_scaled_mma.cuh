// batched_scaled_mm on tensor cores of sm_80 and later: each block computes one tile of one matrix,
// as scaled_mma does. Flow: [launch], of batched_scaled_cuda.cpp.  Read next: scaled_mma.cuh.
#pragma once

#include "ops/gemm/batched_scaled_mm/batched_scaled_config.hpp"
#include "ops/gemm/scaled/scaled_mma.cuh"

namespace dlblas::gemm::scaled {

template <ScaledTraits S, ScaledMmaConfig C>
__global__ void __launch_bounds__(C.kThreads)
    batched_scaled_mma(const __grid_constant__ BatchedScaledParams p) {
  const int64_t i = blockIdx.z * kBatchedScaledRow + blockIdx.y;
  if (i >= p.matrices) return;
  ScaledParams mine = p.first;
  mine.a = static_cast<const uint8_t*>(mine.a) + i * p.a;
  mine.b = static_cast<const uint8_t*>(mine.b) + i * p.b;
  mine.out = static_cast<char*>(mine.out) + i * p.out * size_of(S.out);
  scaled_mma_block<S, C>(mine);
}

}  // namespace dlblas::gemm::scaled
