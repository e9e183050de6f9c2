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
  const int64_t scales = (columns + kBlock - 1) / kBlock;
  const auto rule = scaled::scaled_rule(row.dtype(kBlockA), depth, true);
  row.each(columns, [&](auto n) {
    const auto terms = [&](scaled::ScaledWalk& walk, int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k)
        walk.add(row.load(kBlockA, k) * row.load_row(kBlockWeight, group * columns + n, k));
    };
    const auto factor = [&](int64_t part) {
      return scaled::scaled_factor(
          row.load(kBlockAScale, part),
          row.load_row(kBlockWeightScale, group * scales + n / kBlock, part));
    };
    const OracleValue of = scaled::scaled_element(rule, terms, factor, 0);
    row.store(0, n, of.value, of.magnitude);
  });
}

}  // namespace dlblas::gemm
