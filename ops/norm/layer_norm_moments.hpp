// A row's mean and 1/√(var + eps) in f64, and how far kernels' may be off, in units u = 2^-24: what
// the oracles of layer_norm and of its gradient share. And the scalars that kernels are given.
// A kernel's first mean is off by δ: what its sum brings, two roundings of the mean itself.
// Differences to it, d = x − mean, are rounded once. Their mean, which corrects the first one, is
// off by E: what its sum brings (RowWalk), the roundings of its terms, and a share of δ, which all
// terms have in common and which rounds alike (128 covers any chain of 256).
// The variance is off, relative to var + eps, by V: the sum of d² (of n terms at most n), two
// for d's rounding, two where 1/n and the product with it are rounded; and δ², which is taken out
// again. Half of V is in the root; the root makes 3, the difference, the sum with eps, and eps 1
// each, of which half counts: 5. So x̂ = (x − mean)·rstd is off by rstd·E, one rounding of x − mean
// and one of x̂, 5 δ where the correction is rounded, and V/2 + 5 of x̂. What f32 sums cannot hold is
// undefined: C·max|x| or Σ(x − mean)² beyond 2^126, as kernels scale it; a variance that is lost
// below 2^-126. Read next: layer_norm_ref.hpp, layer_norm_program.hpp.
#pragma once

#include "device/row/call.hpp"
#include "ops/mean_square.hpp"

namespace dlblas::norm {

enum LayerNormLetter : int { kLayerNormT, kLayerNormC };

/// The scalars of LayerNorm::Scalars and Doubles.
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
  /// How far all x̂ of the row are off: a shift, and a factor; each one's own roundings are two.
  /// Below 2^-126 roundings of f32 are absolute.
  double shift() const { return rstd * (second + 5 * first + 0x1p-146 / kRounding); }
  double factor() const { return variance / 2 + 5; }
  double normed_off(double x) const { return shift() + std::abs(normed(x)) * (2 + factor()); }
};

/// Of the row whose element is x(column).
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

/// LayerNormMoments, which rows share: what a gradient of columns needs of all of them.
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

/// The same of an rms_norm: no mean, and the root of the mean square.
template <typename Row, typename X>
LayerNormMoments rms_moments(const Row& row, std::int64_t width, double eps, const X& x) {
  const RootMeanSquare root = root_mean_square(row, width, eps, x);
  LayerNormMoments m = {};
  m.rstd = root.factor, m.variance = 2 * root.roundings, m.lost = root.lost;
  return m;
}

}  // namespace dlblas::norm
