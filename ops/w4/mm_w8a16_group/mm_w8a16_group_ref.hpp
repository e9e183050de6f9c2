// The oracle of mm_w8a16_group. A scale per column multiplies the sum of x times the codes; scales
// of groups multiply the codes, in f32, before they are rounded to x's type. Allowed error, in
// units u = 2^-24: the sum's, half of f32's smallest step per product (all of f32's normal range
// for bf16, as in ops/common/dot_ref.hpp), and four for scale, bias and the result in f32. Read
// next: ops/w4/weights_ref.hpp.
#pragma once

#include "ops/w4/weights_ref.hpp"

namespace dlblas::w4 {

enum MmW8Tensor : int { kMmW8X, kMmW8Q, kMmW8Scale, kMmW8Bias };
enum MmW8Letter : int { kMmW8T, kMmW8K, kMmW8N, kMmW8Group };

template <typename Row>
void mm_w8a16_group_row(Row& row) {
  const std::int64_t depth = row.size(kMmW8K), group = row.size(kMmW8Group);
  const bool scales_sums = depth <= group;
  const double step = row.dtype(kMmW8X) == DType::kBF16 ? 0x1p-126 : 0x1p-150;
  row.each(row.size(kMmW8N), [&](auto n) {
    const PackedSum of = packed_sum(row, depth, n, [&](auto k, auto c) {
      const double code = row.load_row(kMmW8Q, c, k);
      if (scales_sums) return code;
      return round_to(DType::kF32, code * row.load_row(kMmW8Scale, c, k / group));
    });
    const double scale = scales_sums && depth > 0 ? row.load_row(kMmW8Scale, n, 0) : 1;
    const double scaled = of.sum * scale;
    const double bias = row.has(kMmW8Bias) ? row.load_column(kMmW8Bias, n) : 0;
    // Infinities and NaN must match exactly.
    if (!std::isfinite(scaled + bias)) return row.store(0, n, scaled + bias, 0);
    const double off = of.off + static_cast<double>(depth + 1) * step / kRounding;
    row.store(0, n, scaled + bias, std::abs(scale) * off + 4 * (std::abs(scaled) + std::abs(bias)));
  });
}

}  // namespace dlblas::w4
