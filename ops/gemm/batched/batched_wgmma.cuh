// Batched products on Hopper's WGMMA: matmul's kernel and program over stacks of matrices.
// Flow: call > validate > select > compile > [launch].  Read next: device/gemm/wgmma_mainloop.cuh.
#pragma once

#include "ops/gemm/batched/batched_wgmma_config.hpp"
#include "ops/gemm/matmul/cuda/matmul_wgmma.cuh"

namespace dlblas::gemm {

template <BatchedTraits S, BatchedConfig T>
__global__ void __launch_bounds__(kBatchedWgmmaTiles[T.tile].threads(), 1)
    batched_wgmma(const __grid_constant__ GemmWgmmaCall call) {
  gemm_wgmma_block<S.gemm, kBatchedWgmmaTiles[T.tile], MatmulProgram<S.epilogue>>(call);
}

}  // namespace dlblas::gemm
