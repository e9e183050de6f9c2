// Block-scaled grouped products of e4m3 on Hopper's WGMMA: the kernel of
// device/gemm/wgmma_groups.cuh with the main loop for codes and a listed tile.
// Flow: call > validate > select > compile > [launch].  Read next: grouped_block_wgmma_cuda.cpp.
#pragma once

#include "device/gemm/wgmma_codes.cuh"
#include "device/gemm/wgmma_groups.cuh"
#include "ops/gemm/grouped_block/grouped_block_wgmma_config.hpp"

namespace dlblas::gemm {

template <GroupTraits G, DType kOut, GroupedBlockConfig T>
__global__ void __launch_bounds__(kGroupedBlockWgmmaTiles[T.tile].threads(), 1)
    grouped_block_wgmma(const __grid_constant__ GroupedWgmmaCall call) {
  constexpr GemmTraits kCodes = {.type = DType::kF8E4M3, .a_by_depth = true, .b_by_depth = true};
  extern __shared__ unsigned char raw[];
  groups_wgmma<kCodes, G, kOut, kGroupedBlockWgmmaTiles[T.tile]>(call, raw);
}

}  // namespace dlblas::gemm
