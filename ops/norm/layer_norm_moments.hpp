// A row's mean and 1/√(var + eps) in f64, and the error a kernel's may have, in units u = 2^-24.
// Shared by the oracles of layer_norm and of its gradient; also the scalars that kernels are given.
// A kernel's first mean has an error of δ: that of its sum, and two roundings of the mean itself.
// Differences to it, d = x − mean, are rounded once. Their mean, which corrects the first one, has
// an error of E: that of its sum (RowWalk), the roundings of its terms, and a share of δ, which all
// terms have in common and which rounds alike (128 covers any chain of 256).
// The variance has an error of V, relative to var + eps: that of the sum of d² (at most n for n
// terms), two for d's rounding, two for the roundings of 1/n and of the product with it; and δ²,
// which is subtracted again. Half of V enters the root; the root itself adds 3, and the difference,
// the sum with eps, and eps add 1 each, of which half counts: 5. So x̂ = (x − mean)·rstd has an
// error of rstd·E, one rounding of x − mean and one of x̂, 5 δ where the correction is rounded, and
// V/2 + 5 of x̂. Undefined is what f32 sums cannot hold: C·max|x| or Σ(x − mean)² beyond 2^126, as
// kernels scale it, and a variance lost below 2^-126. Read next: layer_norm_ref.hpp,
// layer_norm_program.hpp.
#pragma once

#include "device/row/call.hpp"
#include "ops/common/mean_square.hpp"

namespace dlblas::norm {

enum LayerNormLetter : int { kLayerNormT, kLayerNormC };

/// Fills LayerNorm::Scalars and Doubles.
inline void fill_layer_norm(double eps, std::int64_t width, RowCall& call) {
  fill_mean_square(eps, width, call);
  call.f[3] = static_cast<float>(1 / layer_norm_scale(eps));
  call.d[0] = 1 / static_cast<double>(width);
}

struct LayerNormMoments {
  double mean, rstd;
  double first, second, variance;  // δ; E and V, times u
  bool lost;                       // f32 cannot hold its sums

  double normed(double x) const { return (x - mean) * rstd; }
  /// The error that all x̂ of the row share: a shift and a factor; each adds two roundings of its
  /// own. Below 2^-126, roundings of f32 are absolute.
  double shift() const { return rstd * (second + 5 * first + 0x1p-146 / kRounding); }
  double factor() const { return variance / 2 + 5; }
  double normed_off(double x) const { return shift() + std::abs(normed(x)) * (2 + factor()); }
};

/// The moments of the row with elements x(column).
template <typename Row, typename X>
LayerNormMoments layer_norm_moments(const Row& row, std::int64_t width, double eps, const X& x) {
  const auto n = static_cast<double>(width);
  const double scale = layer_norm_scale(eps), scale2 = scale * scale;
  const double most = row.max(width, [&](auto c) { return std::abs(x(c)); });
  const kernels::RowWalk sum = row.walk(width, x);
  LayerNormMoments m;
  m.mean = sum.sum() / n;
  const auto difference = [&](auto c) { return x(c) - m.mean; };
  const kernels::RowWalk differences = row.walk(width, difference);
  const double squares = row.sum(width, [&](auto c) { return difference(c) * difference(c); });
  const double fourth = row.sum(width, [&](auto c) { return std::pow(difference(c), 4); });
  const double with_eps = squares / n + eps;
  m.rstd = 1 / std::sqrt(with_eps);
  m.first = (sum.roundings() / n + 2 * std::abs(m.mean)) * kRounding;
  m.second = (differences.roundings() + differences.size()) / n + 128 * m.first;
  const double first2 = m.first * m.first,
               roundings = kernels::sum_roundings(width, squares, fourth);
  m.variance = ((std::min(n, roundings) + 4) * (squares / n + first2) + 2 * m.first * m.second +
                3 * first2 + 0x1p-126 / scale2 / kRounding) /
               with_eps;
  const double held = n * (squares / n + first2) * scale2;
  m.lost = (std::isfinite(most) && n * most >= 0x1p126) || held >= 0x1p126 ||
           m.variance * kRounding > 0x1p-6 || with_eps <= 0;
  return m;
}

/// LayerNormMoments as values that rows share: a gradient over columns needs those of all rows.
inline constexpr int kMomentValues = 6;

template <typename Row>
void keep_moments(Row& row, const LayerNormMoments& m) {
  const double values[] = {m.mean, m.rstd, m.first, m.second, m.variance, m.lost ? 1.0 : 0.0};
  for (int i = 0; i < kMomentValues; ++i) row.keep(row.index() * kMomentValues + i, values[i]);
}
template <typename Row>
LayerNormMoments kept_moments(const Row& row, std::int64_t t) {
  const auto value = [&](int i) { return row.kept(t * kMomentValues + i); };
  return {value(0), value(1), value(2), value(3), value(4), value(5) != 0};
}

/// The same for an rms_norm: no mean, and the root of the mean square.
template <typename Row, typename X>
LayerNormMoments rms_moments(const Row& row, std::int64_t width, double eps, const X& x) {
  const RootMeanSquare root = root_mean_square(row, width, eps, x);
  LayerNormMoments m = {};
  m.rstd = root.factor, m.variance = 2 * root.roundings, m.lost = root.lost;
  return m;
}

}  // namespace dlblas::norm
