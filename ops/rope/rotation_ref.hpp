// The oracles of rotations: out_l = l·cos_l − h·sin_l, out_h = h·cos_h + l·sin_h, in f64.
// The error they allow, in units u = 2^-24: each product is rounded (or one of them not, by a fused
// multiply-add), u·(|l·cos| + |h·sin|), and so is the sum, u·|out|, which for f32 is the store's
// rounding. Rows of q and k are heads: q's row r is head r % H of token r / H.
// Read next: ops/oracle_text.hpp, ops/rope/rotation.hpp.
#pragma once

#include "ops/oracle_text.hpp"

namespace dlblas::rope {

inline Bound rotation_bound(DType type) {
  constexpr double kSecondOrder = 1 + 0x1p-20;
  const FloatTraits out = float_traits(type);
  const double sum = type == DType::kF32 ? 0 : kRounding;
  return {.magnitude = kSecondOrder * kRounding,
          .value = kSecondOrder * (out.eps / 2 + sum),
          .absolute = out.tiny};
}

/// Which tensors and letters, and where factors lie: cos(token, i) and sin(token, i) of `2·pairs`.
struct Turned {
  int x, result, heads;  // tensor, result, letter
};

/// A row whose token has a negative position: nothing writes it, so what it holds is undefined.
template <typename Row, typename Position>
bool left_alone(Row& row, const Turned& turned, int tokens, const Position& position) {
  const std::int64_t heads = row.size(turned.heads);
  if (row.index() >= row.size(tokens) * heads || position(row.index() / heads) >= 0) return false;
  row.each(row.width(turned.x),
           [&](auto c) { row.store(turned.result, c, row.load(turned.x, c), -1); });
  return true;
}

/// One row of `turned` where it has one. Channels after the pairs are copied.
template <typename Row, typename Cos, typename Sin>
void rotate_row(Row& row, const Turned& turned, int tokens, std::int64_t pairs, bool interleaved,
                const Cos& cos, const Sin& sin) {
  const std::int64_t heads = row.size(turned.heads);
  if (row.index() >= row.size(tokens) * heads) return;
  const std::int64_t token = row.index() / heads;
  row.each(pairs, [&](auto i) {
    const auto l = interleaved ? 2 * i : i, h = interleaved ? 2 * i + 1 : i + pairs;
    const double low = row.load(turned.x, l), high = row.load(turned.x, h);
    const auto j = i + pairs;
    const double a = low * cos(token, i), b = high * sin(token, i);
    const double c = high * cos(token, j), d = low * sin(token, j);
    row.store(turned.result, l, a - b, std::abs(a) + std::abs(b));
    row.store(turned.result, h, c + d, std::abs(c) + std::abs(d));
  });
  row.each(row.width(turned.x) - 2 * pairs, [&](auto i) {
    const double value = row.load(turned.x, 2 * pairs + i);
    row.store(turned.result, 2 * pairs + i, value, 0);
  });
}

}  // namespace dlblas::rope
