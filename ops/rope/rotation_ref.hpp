// The oracles of rotations: out_l = l·cos_l − h·sin_l, out_h = h·cos_h + l·sin_h, in f64.
// The error they allow, in units u = 2^-24: each product is rounded (with a fused multiply-add, all
// but one), u·(|l·cos| + |h·sin|), and so is the sum, u·|out|, which in f32 is the store's
// rounding. Products that are rounded to the dtype first may differ by a step near a tie. Rows of q
// and k are heads: q's row r is head r % H of token r / H.
// Read next: ops/common/tie_ref.hpp, ops/rope/rotation.hpp.
#pragma once

#include "ops/common/tie_ref.hpp"
#include "ops/rope/style.hpp"

namespace dlblas::rope {

inline Bound rotation_bound(DType type) {
  constexpr double kSecondOrder = 1 + 0x1p-20;
  const FloatTraits out = float_traits(type);
  const double sum = type == DType::kF32 ? 0 : kRounding;
  return {.magnitude = kSecondOrder * kRounding,
          .value = kSecondOrder * (out.eps / 2 + sum),
          .absolute = out.tiny};
}

/// Which tensor is rotated into which result. Its factors are cos(token, i) and sin(token, i), with
/// i below 2·pairs.
struct Turned {
  int x, result, heads;  // tensor, result, letter
};

/// Marks a row whose token has a negative position: nothing writes it, so its contents are
/// undefined.
template <typename Row, typename Position>
bool left_alone(Row& row, const Turned& turned, int tokens, const Position& position) {
  const std::int64_t heads = row.size(turned.heads);
  if (row.index() >= row.size(tokens) * heads || position(row.index() / heads) >= 0) return false;
  row.each(row.width(turned.x),
           [&](auto c) { row.store(turned.result, c, row.load(turned.x, c), -1); });
  return true;
}

/// One row of `turned`, if there is one. Channels after the pairs are copied. `cast`: products are
/// rounded to the result's dtype before they are added; in f32 they already are.
template <typename Row, typename Cos, typename Sin>
void rotate_row(Row& row, const Turned& turned, int tokens, std::int64_t pairs, std::int64_t style,
                const Cos& cos, const Sin& sin, bool cast = false) {
  const std::int64_t heads = row.size(turned.heads);
  const DType dtype = row.result_dtype(turned.result);
  const bool rounds = cast && dtype != DType::kF32;
  const auto term = [&](double x, double factor) {
    norm::OffValue product = {x * factor, 0};
    if (rounds) product = norm::rounded_product(dtype, x, factor);
    return norm::OffValue{product.value, product.off + std::abs(product.value)};
  };
  if (row.index() >= row.size(tokens) * heads) return;
  const std::int64_t token = row.index() / heads;
  const bool reads_pairs = style != kNeox, writes_pairs = style == kInterleaved;
  row.each(pairs, [&](auto i) {
    const auto j = i + pairs;
    const double low = row.load(turned.x, reads_pairs ? 2 * i : i);
    const double high = row.load(turned.x, reads_pairs ? 2 * i + 1 : j);
    const norm::OffValue a = term(low, cos(token, i)), b = term(high, sin(token, i));
    const norm::OffValue c = term(high, cos(token, j)), d = term(low, sin(token, j));
    row.store(turned.result, writes_pairs ? 2 * i : i, a.value - b.value, a.off + b.off);
    row.store(turned.result, writes_pairs ? 2 * i + 1 : j, c.value + d.value, c.off + d.off);
  });
  row.each(row.width(turned.x) - 2 * pairs, [&](auto i) {
    const double value = row.load(turned.x, 2 * pairs + i);
    row.store(turned.result, 2 * pairs + i, value, 0);
  });
}

}  // namespace dlblas::rope
