// The oracle of linear_rope: z = x · weightᵀ + bias, then rotates pairs of channels,
// out_l = l·cos_l − h·sin_l, out_h = h·cos_h + l·sin_h, in f64. Allowed error, in units u = 2^-24:
// that of each sum (ops/common/dot_ref.hpp) and one rounding for the bias, where sums over
// different weights have independent errors, whose contributions add up as squares do; and one
// rounding of each product and of their sum. Read next: ops/common/oracle_text.hpp,
// linear_rope.cpp.
#pragma once

#include "ops/common/dot_ref.hpp"
#include "ops/common/oracle_text.hpp"

namespace dlblas::mlp {

enum LinearRopeTensor : int { kRopeX, kRopeWeight, kRopeCos, kRopeSin, kRopeBias, kRopeY };
enum LinearRopeLetter : int { kRopeT, kRopeK, kRopeHeads, kRopeDh, kRopeV, kRopeS };
enum LinearRopeScalar : int { kRopeHeadsGiven, kRopeStyle };

template <typename Row>
void linear_rope_row(Row& row) {
  const auto x = [&](auto k) { return row.load(kRopeX, k); };
  const auto sum_of = [&](auto c) {
    const DotSum dot = dot_of(row, row.dtype(kRopeX), row.size(kRopeK), x, kRopeWeight, c);
    const double sum = dot.sum + (row.has(kRopeBias) ? row.load_column(kRopeBias, c) : 0);
    return OffSum{sum, dot.off + std::abs(sum)};
  };
  const std::int64_t half = row.size(kRopeDh), head = 2 * half;
  const std::int64_t turned = row.size(kRopeHeads) * half, token = row.index() % row.size(kRopeS);
  const bool neighbours = row.integer(kRopeStyle) != 0;
  const double alike = std::min(1.0, 2 / std::sqrt(static_cast<double>(row.size(kRopeK))));
  const auto store = [&](auto c, const OffSum& a, double of_a, const OffSum& b, double of_b) {
    const double first = a.sum * of_a, second = b.sum * of_b;
    const double sums =
        (1 + 0.42 * alike) * std::hypot(a.off * std::abs(of_a), b.off * std::abs(of_b));
    const bool is_finite = std::isfinite(first + second);
    row.store(0, c, first + second,
              is_finite ? sums + 2 * (std::abs(first) + std::abs(second)) : 0);
  };
  row.each(turned, [&](auto i) {
    const auto begin = i / half * head, pair = i % half;
    const auto low_at = begin + (neighbours ? 2 * pair : pair);
    const auto high_at = neighbours ? low_at + 1 : low_at + half;
    const OffSum low = sum_of(low_at), high = sum_of(high_at);
    store(low_at, low, row.load_row(kRopeCos, token, pair), high,
          -row.load_row(kRopeSin, token, pair));
    store(high_at, high, row.load_row(kRopeCos, token, pair + half), low,
          row.load_row(kRopeSin, token, pair + half));
  });
  row.each(row.size(kRopeV), [&](auto i) {
    const auto c = 2 * turned + i;
    const OffSum sum = sum_of(c);
    row.store(0, c, sum.sum, std::isfinite(sum.sum) ? sum.off : 0);
  });
}

}  // namespace dlblas::mlp
