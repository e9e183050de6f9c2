// Grouped products on Hopper's WGMMA: the kernel of device/gemm/wgmma_groups.cuh with a listed
// tile. Flow: call > validate > select > compile > [launch].  Read next: grouped_wgmma_cuda.cpp.
#pragma once

#include "device/gemm/wgmma_gathered.cuh"
#include "ops/gemm/grouped/grouped_wgmma_config.hpp"

namespace dlblas::gemm {

template <GroupedTraits S, GroupedConfig T>
__global__ void __launch_bounds__(kGroupedWgmmaTiles[T.tile].threads(), 1)
    grouped_wgmma(const __grid_constant__ GroupedWgmmaCall call) {
  extern __shared__ unsigned char raw[];
  groups_wgmma<S.gemm, S.groups, S.out.type, kGroupedWgmmaTiles[T.tile]>(call, raw);
}

}  // namespace dlblas::gemm
