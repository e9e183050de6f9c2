// The oracle of the block-scaled grouped products: for each row in a group, the f64 sum over blocks
// of 128 of K of f32(a_scale · weight_scale) · Σ a · weight. The allowed error is that of the
// scaled products, which use the same tensor cores. Read next:
// ops/gemm/scaled/scaled_ref.hpp, ops/gemm/grouped/grouped_ref.hpp.
#pragma once

#include "ops/gemm/grouped/grouped_ref.hpp"
#include "ops/gemm/scaled/scaled_ref.hpp"

namespace dlblas::gemm {

enum BlockTensor : int { kBlockA, kBlockWeight, kBlockSizes, kBlockAScale, kBlockWeightScale };

/// Stores the columns of a row of `group`; `columns` and `depth` are N and K.
template <typename Row>
void store_block_sums(Row& row, int64_t group, int64_t columns, int64_t depth) {
  constexpr int64_t kBlock = scaled::kOracleGroup;
  const int64_t parts = (depth + kBlock - 1) / kBlock, scales = (columns + kBlock - 1) / kBlock;
  row.each(columns, [&](auto n) {
    scaled::ScaledWalk walk(false);
    for (int64_t part = 0; part < parts; ++part) {
      const double exact = row.load(kBlockAScale, part) *
                           row.load_row(kBlockWeightScale, group * scales + n / kBlock, part);
      for (int64_t k = part * kBlock; k < std::min<int64_t>(depth, (part + 1) * kBlock); ++k)
        walk.add(row.load(kBlockA, k) * row.load_row(kBlockWeight, group * columns + n, k));
      walk.end_group(static_cast<double>(static_cast<float>(exact)));
    }
    row.store(0, n, scaled::scaled_value(walk, 1, 0), scaled::scaled_magnitude(walk, 1, 0));
  });
}

}  // namespace dlblas::gemm
