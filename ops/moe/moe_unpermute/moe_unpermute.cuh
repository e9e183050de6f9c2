// moe_unpermute: one block per token adds up its rows, from the first choice to the last.
// Numerics: products and sums in f32, one rounding, at the store.
// Flow: call > validate > select > compile > [launch].  Read next: ops/moe/sort/sort.cuh.
#pragma once

#include "ops/moe/moe_unpermute/moe_unpermute_config.hpp"
#include "ops/moe/sort/sort.cuh"

namespace dlblas::moe {

template <MoeUnpermuteTraits S>
__global__ void __launch_bounds__(kMoeThreads)
    moe_unpermute(const __grid_constant__ MoeUnpermuteParams p) {
  constexpr int kSize = size_of(S.type);
  constexpr int kBytes = S.access > 1 ? S.access * kSize : S.aligned ? kSize : 1;
  constexpr MoeSortTraits kTables = {S.positions, S.aligned_tables};
  const int64_t token = blockIdx.x;
  const auto num_rows = static_cast<int32_t>(p.num_rows);
  for (int64_t c = threadIdx.x * S.access; c < p.width; c += blockDim.x * S.access) {
    float sums[S.access] = {};
    for (int32_t j = 0; j < p.choices; ++j) {
      const int32_t row = moe_sort::load_index<kTables>(
          p.positions, token * p.positions_outer + j * p.positions_inner, num_rows);
      if (row < 0) continue;
      float weight[1], values[S.access];
      load_vec<S.weights, 1, (S.aligned_tables ? size_of(S.weights) : 1)>(
          p.weights, token * p.weights_outer + j * p.weights_inner)
          .unpack(weight);
      load_vec<S.type, S.access, kBytes>(p.rows, row * p.rows_row + c * p.rows_column)
          .unpack(values);
#pragma unroll
      for (int i = 0; i < S.access; ++i) sums[i] = fmaf(weight[0], values[i], sums[i]);
    }
    Vec<S.type, S.access> y;
    y.pack(sums);
    store_vec<S.type, S.access, kBytes>(p.y, token * p.y_row + c * p.y_column, y);
  }
}

}  // namespace dlblas::moe
