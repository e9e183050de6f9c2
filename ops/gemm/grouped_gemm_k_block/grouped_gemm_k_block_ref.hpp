// The oracle of grouped_gemm_k_block: for each block of 128 rows, the f64 sum over those of the
// group, times f32(a_scale · b_scale); 0 for an empty group. The allowed error is that of the
// scaled products. Read next: ops/gemm/scaled/scaled_ref.hpp, ops/gemm/grouped/grouped_ref.hpp.
#pragma once

#include "ops/gemm/grouped/grouped_ref.hpp"
#include "ops/gemm/scaled/scaled_ref.hpp"

namespace dlblas::gemm {

enum DepthBlockLetter : int { kDepthBlockM, kDepthBlockN, kDepthBlockK, kDepthBlockE };
enum DepthBlockTensor : int { kDepthA, kDepthB, kDepthSizes, kDepthAScale, kDepthBScale };

template <typename Row>
void grouped_gemm_k_block_row(Row& row) {
  constexpr int64_t kBlock = scaled::kOracleGroup;
  const int64_t rows = row.size(kDepthBlockM), width = row.size(kDepthBlockN);
  const int64_t group = row.index() / width, n = row.index() - group * width;
  const int64_t begin = group_limit(row, group, rows), end = group_limit(row, group + 1, rows);
  row.each(row.size(kDepthBlockK), [&](auto k) {
    scaled::ScaledWalk walk(false);
    for (int64_t m = begin; m < end;) {
      const int64_t block = m / kBlock;
      for (; m < std::min<int64_t>(end, (block + 1) * kBlock); ++m)
        walk.add(row.load_row(kDepthA, m, n) * row.load_row(kDepthB, m, k));
      walk.end_group(scaled::scaled_factor(row.load_row(kDepthAScale, block, n),
                                           row.load_row(kDepthBScale, block, k)));
    }
    row.store(0, k, walk.total(), walk.magnitude());
  });
}

}  // namespace dlblas::gemm
