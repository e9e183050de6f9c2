// Sums of e4m3 codes over the rows of groups on Hopper's WGMMA: the kernel of
// device/gemm/wgmma_depth_codes.cuh with a listed tile.
// Flow: call > validate > select > compile > [launch].  Read next: grouped_depth_wgmma_cuda.cpp.
#pragma once

#include "device/gemm/wgmma_depth_codes.cuh"
#include "ops/gemm/grouped_block/grouped_depth_wgmma_config.hpp"

namespace dlblas::gemm {

template <GroupTraits G, DType kOut, GroupedBlockConfig T>
__global__ void __launch_bounds__(kGroupedDepthTiles[T.tile].threads(), 1)
    grouped_depth_wgmma(const __grid_constant__ GroupedWgmmaCall call) {
  extern __shared__ unsigned char raw[];
  depth_codes_wgmma<G, kOut, kGroupedDepthTiles[T.tile]>(call, raw);
}

}  // namespace dlblas::gemm
