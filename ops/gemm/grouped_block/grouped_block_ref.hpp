// The oracle of grouped products with scales of blocks: the sum over every 128 of K of
// f32(a_scale · weight_scale) · Σ a · weight, in f64, where a row has a group. The error it allows,
// in roundings of f32: of each part's sum, times its factor; one of each product with a factor; and
// of the sum of the parts. Read next: ops/gemm/grouped/grouped_ref.hpp.
#pragma once

#include "ops/gemm/grouped/grouped_ref.hpp"

namespace dlblas::gemm {

enum BlockTensor : int { kBlockA, kBlockWeight, kBlockSizes, kBlockAScale, kBlockWeightScale };

/// Columns of a row that belongs to `group`; `columns` and `depth` are N and K.
template <typename Row>
void store_block_sums(Row& row, int64_t group, int64_t columns, int64_t depth) {
  const int64_t parts = (depth + 127) / 128, scales = (columns + 127) / 128;
  const SumModel model = sum_model(128, true), of_parts = sum_model(parts, false);
  row.each(columns, [&](auto n) {
    SumWalk all;
    double error = 0;
    for (int64_t part = 0; part < parts; ++part) {
      const double exact = row.load(kBlockAScale, part) *
                           row.load_row(kBlockWeightScale, group * scales + n / 128, part);
      const double factor = static_cast<float>(exact);
      SumWalk walk;
      for (int64_t k = part * 128; k < std::min<int64_t>(depth, part * 128 + 128); ++k)
        walk.add(row.load(kBlockA, k) * row.load_row(kBlockWeight, group * columns + n, k));
      const double value = factor * walk.sum();
      all.add(value);
      error += std::abs(factor) * sum_error(model, walk.sizes()) + 2 * std::abs(value);
    }
    row.store(0, n, all.sum(), error + sum_error(of_parts, all.sizes()) + 2 * std::abs(all.sum()));
  });
}

}  // namespace dlblas::gemm
