// moe_align: writes items to their places, and what is between: padding, and the expert of each
// block. The first warps walk chunks, the others take one block of the result each; no two write
// the same element. Flow: call > validate > select > compile > [launch]. Read next:
// ops/moe/sort/sort.cuh.
#pragma once

#include "ops/moe/moe_align/moe_align_config.hpp"
#include "ops/moe/sort/sort.cuh"

namespace dlblas::moe {

/// The last expert whose group begins at or before `position`: its group contains `position`.
__device__ inline int32_t expert_at(const MoeSortParams& p, int32_t position) {
  int32_t low = 0, high = p.experts;  // bases[low] <= position < bases[high]
  while (high - low > 1) {
    const int32_t middle = (low + high) / 2;
    (p.bases[middle] <= position ? low : high) = middle;
  }
  return low;
}

template <MoeSortTraits S>
__global__ void __launch_bounds__(kMoeThreads)
    moe_align_place(const __grid_constant__ MoeAlignParams p) {
  using namespace moe_sort;
  const int64_t warp = warp_of_grid();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (warp < p.sort.chunks) {
    const auto chunk = static_cast<int32_t>(warp);
    walk_chunk<S>(p.sort, chunk, begin_counters(p.sort, chunk, true),
                  [&](int32_t item, int32_t expert, int32_t position) {
                    if (expert >= 0) store_word<S.aligned>(p.sorted_ids, position, item);
                  });
    return;
  }
  const int64_t block = warp - p.sort.chunks;
  const int32_t padded = p.sort.bases[p.sort.experts];
  if (block == 0 && lane == 0) store_word<S.aligned>(p.num_padded, 0, padded);
  if (block >= p.blocks) return;
  const int64_t first = block * p.sort.block, end = min(first + p.sort.block, p.extent);
  int64_t filled = first;  // items end here
  int32_t expert = -1;
  if (first < padded) {
    expert = expert_at(p.sort, static_cast<int32_t>(first));
    filled = min(end, static_cast<int64_t>(p.sort.bases[expert]) + p.sort.totals[expert]);
  }
  if (lane == 0) store_word<S.aligned>(p.expert_ids, block, expert);
  for (int64_t at = filled + lane; at < end; at += kWarp)
    store_word<S.aligned>(p.sorted_ids, at, p.sort.items);
}

}  // namespace dlblas::moe
