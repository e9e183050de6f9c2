// batched_scaled_mm on Hopper's 8-bit WGMMA: the scaled products' main loop and program over stacks
// of matrices. Flow: [launch], of batched_scaled_wgmma_cuda.cpp.  Read next: scaled_wgmma.cuh,
// device/gemm/wgmma_codes.cuh.
#pragma once

#include "ops/gemm/batched_scaled_mm/batched_scaled_config.hpp"
#include "ops/gemm/scaled/scaled_wgmma.cuh"

namespace dlblas::gemm::scaled {

template <GemmTraits S, ScaledProgramTraits P, BatchedScaledConfig T>
__global__ void __launch_bounds__(kBatchedScaledTiles[T.tile].threads(), 1)
    batched_scaled_wgmma(const __grid_constant__ GemmWgmmaCall call) {
  gemm_wgmma_block<S, kBatchedScaledTiles[T.tile], ScaledProgram<P>>(call);
}

}  // namespace dlblas::gemm::scaled
