// The oracle shared by rms_norm and add_rms_norm, written for one row (ops/common/oracle_text.hpp),
// and the parts of the family's bounds. The bound is derived here, not fitted.
//
// u = 2^-24 is the rounding of f32. The root has the error of its sum, 0.72·√(n/8) + n/4·q⁶
// roundings (ops/common/mean_square.hpp). Six more follow in f32: 2 for the scale, where a root is
// approximated, and 1 each for its product with h, for weight + offset, for the last product, and
// of second order:
//   |y − ref| ≤ (6 + 0.72·√(n/8) + n/4·q⁶)·u · |h·scale|·(|weight| + |offset|)
//               +  rounding to y's dtype:
// 12 roundings of f32 for a wide row of normal values.
// Read next: ops/norm/rms_norm/rms_norm_ref.hpp, ops/norm/rms_norm/rms_norm_program.hpp.
#pragma once

#include "ops/common/mean_square.hpp"
#include "ops/common/oracle_text.hpp"
#include "ops/common/tie_ref.hpp"
#include "ops/norm/norm_letters.hpp"

namespace dlblas::norm {

/// The reference for a store of values beyond the dtype's range: infinity if even the smallest
/// value that the bound allows rounds to it; else v itself, since a correct result may fall on
/// either side.
inline double overflowed(DType dtype, double v, double magnitude) {
  const double least = std::abs(v) - 2 * kRounding * magnitude;
  const bool sure = least > 0 && std::isinf(round_to(dtype, least));
  return sure ? std::copysign(infinity(), v) : v;
}

/// weight_offset as kernels hold it, in f32: outside f32's range it is infinite or 0.
inline double held_offset(double offset) {
  const auto f32 = static_cast<float>(offset);
  return std::isinf(f32) || f32 == 0 ? f32 : offset;
}

/// h = round(x + residual), computed in f32 and rounded to `dtype`, the dtype of both: bit-exact.
template <typename Row>
double hidden_sum(const Row& row, DType dtype, int x, int residual, std::int64_t c) {
  const auto value = static_cast<float>(row.load(x, c));
  return round_to(dtype, value + static_cast<float>(row.load(residual, c)));
}
/// Stores h as `result`; its bound is kHiddenBound.
template <typename Row, typename Hidden>
void store_hidden(Row& row, int result, const Hidden& h) {
  row.each(row.size(kC), [&](auto c) {
    const double v = h(c);
    row.store_as_is(result, c, v, std::abs(v));
  });
}

/// Far below any dtype's step: exact.
inline constexpr Bound kHiddenBound = {.magnitude = 0, .value = 0, .absolute = 1e-300};

/// y = h · rsqrt(mean(h²) + eps) · (weight + weight_offset), result 0, for one row h(c); `dtype` is
/// that of h and y, `weight` the tensor's position; if it is absent, the factor is 1.
template <typename Row, typename Hidden>
void norm_row(Row& row, DType dtype, int weight, const Hidden& h) {
  const std::int64_t width = row.size(kC);
  const auto sums = row.template sums<3>(width, [&](auto c, double* terms) {
    const double v = h(c), square = v * v;
    terms[0] = square, terms[1] = square * square, terms[2] = v != 0;
  });
  const RowSquares squares = {sums.of[0], sums.of[1], sums.of[2]};
  const double offset = held_offset(row.scalar(kWeightOffset));
  const double scale = 1 / std::sqrt(squares.sum / static_cast<double>(width) + row.scalar(kEps));
  const double roundings = kNormRoundings + squares.root_error(width);
  const double error = roundings * kRounding;
  const bool weighted = row.has(weight);  // without one: nothing is multiplied
  const bool cast = weighted && row.integer(kCastBeforeWeight) != 0 && dtype != DType::kF32;
  row.each(width, [&](auto c) {
    const double w = weighted ? row.load_column(weight, c) : 1, factor = w + offset;
    double normed = h(c) * scale, size = std::abs(normed);
    if (cast) {
      // Adds one step of the dtype if the kernel's value may be on the other side of a tie.
      const double off = size * error + 0x1p-149;
      if (may_flip(dtype, normed, off)) size += spacing(dtype, normed) / error;
      normed = round_to(dtype, normed);
    }
    // 0 · ∞ is NaN, and f32 decides what is 0.
    if (std::isinf(factor)) normed = round_to(DType::kF32, normed);
    // Below 2^-126 f32 roundings are absolute.
    const double magnitude = roundings * (size + 0x1p-126) * (std::abs(w) + std::abs(offset));
    row.store_as_is(0, c, overflowed(dtype, normed * factor, magnitude), magnitude);
  });
}

}  // namespace dlblas::norm
