// moe_sort: writes the token of each row, and the row of each choice.
// Flow: call > validate > select > compile > [launch].  Read next: ops/moe/sort/sort.cuh.
#pragma once

#include "ops/moe/moe_sort/moe_sort_config.hpp"
#include "ops/moe/sort/sort.cuh"

namespace dlblas::moe {

template <MoeSortTraits S>
__global__ void __launch_bounds__(kMoeThreads)
    moe_sort_place(const __grid_constant__ MoeListParams p) {
  using namespace moe_sort;
  const int64_t warp = warp_of_grid(), warps = static_cast<int64_t>(gridDim.x) * kMoeWarps;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int64_t e = warp * kWarp + lane; e <= p.sort.experts; e += warps * kWarp)
    store_word<S.aligned>(p.offsets, e, p.sort.bases[e]);
  // Rows of no group, at the end: as many as choices of no expert.
  for (int64_t r = p.sort.bases[p.sort.experts] + warp * kWarp + lane; r < p.sort.items;
       r += warps * kWarp)
    store_word<S.aligned>(p.rows, r, -1);
  if (warp >= p.sort.chunks) return;
  const auto chunk = static_cast<int32_t>(warp);
  walk_chunk<S>(p.sort, chunk, begin_counters(p.sort, chunk, true),
                [&](int32_t item, int32_t expert, int32_t position) {
                  const int32_t t = item / p.sort.inner, j = item - t * p.sort.inner;
                  const MoeColumn to = {p.inverse, 1};
                  store_word<S.aligned>(to, t * p.inverse_outer + j * p.inverse_inner,
                                        expert >= 0 ? position : -1);
                  if (expert >= 0) store_word<S.aligned>(p.rows, position, t);
                });
}

}  // namespace dlblas::moe
