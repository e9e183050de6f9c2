// moe_permute: computes the position of each choice; then one block per token reads the token's row
// once and writes it to each of its positions.
// Flow: call > validate > select > compile > [launch].  Read next: ops/moe/sort/sort.cuh.
#pragma once

#include "ops/moe/moe_permute/moe_permute_config.hpp"
#include "ops/moe/sort/sort.cuh"

namespace dlblas::moe {

template <MoeSortTraits S>
__global__ void __launch_bounds__(kMoeThreads)
    moe_permute_place(const __grid_constant__ MoePermuteParams p) {
  using namespace moe_sort;
  const int64_t warp = warp_of_grid(), warps = static_cast<int64_t>(gridDim.x) * kMoeWarps;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int64_t e = warp * kWarp + lane; e <= p.sort.experts; e += warps * kWarp)
    store_word<S.aligned>(p.offsets, e, p.sort.bases[e]);
  if (warp >= p.sort.chunks) return;
  const auto chunk = static_cast<int32_t>(warp);
  walk_chunk<S>(p.sort, chunk, begin_counters(p.sort, chunk, true),
                [&](int32_t item, int32_t expert, int32_t position) {
                  const int32_t t = item / p.sort.inner, j = item - t * p.sort.inner;
                  const MoeColumn to = {p.inverse, 1};
                  store_word<S.aligned>(to, t * p.inverse_outer + j * p.inverse_inner,
                                        expert >= 0 ? position : -1);
                });
}

template <MoeCopyTraits S>
__global__ void __launch_bounds__(kMoeThreads)
    moe_permute_copy(const __grid_constant__ MoeCopyParams p) {
  constexpr int kBytes = S.access > 1 ? S.access * size_of(S.type)
                         : S.aligned  ? size_of(S.type)
                                      : 1;
  const int64_t token = blockIdx.x;
  for (int64_t c = threadIdx.x * S.access; c < p.width; c += blockDim.x * S.access) {
    const auto words = load_vec<S.type, S.access, kBytes>(p.x, token * p.x_row + c * p.x_column);
    for (int32_t j = 0; j < p.choices; ++j) {
      const int32_t position = moe_sort::load_word<S.aligned_inverse>(
          p.inverse, token * p.inverse_outer + j * p.inverse_inner);
      if (position >= 0)
        store_vec<S.type, S.access, kBytes>(p.rows, position * p.rows_row + c * p.rows_column,
                                            words);
    }
  }
}

}  // namespace dlblas::moe
