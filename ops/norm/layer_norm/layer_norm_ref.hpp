// The oracle of layer_norm: y = (x − mean)/√(var + eps)·weight + bias, in f64, biased variance.
// The error it allows, in units u = 2^-24. A kernel's first mean is off by δ: what its sum brings,
// two roundings of the mean itself. Differences to it, d = x − mean, are rounded once. Their mean,
// which corrects the first one, is off by E: what its sum brings, the roundings of its terms, and
// a share of δ, which all terms have in common and which rounds alike (128 covers any chain).
// Of the variance: the sum of d², four roundings of its terms, and δ², which is taken out again;
// half of that in the root, and 5 for the root and eps. y is a difference, a product and a sum of
// these; weight and bias bring one rounding each, and one where a·b + c is two.
// What f32 sums cannot hold is undefined: C·max|x| or Σ(x − mean)² beyond 2^126, as kernels scale
// it; a variance that is lost below 2^-126. Read next: device/oracle/text.hpp,
// layer_norm_program.hpp.
#pragma once

#include "device/oracle/text.hpp"

namespace dlblas::norm {

enum LayerNormTensor : int { kLayerNormX, kLayerNormWeight, kLayerNormBias, kLayerNormY };
enum LayerNormLetter : int { kLayerNormT, kLayerNormC };
enum LayerNormScalar : int { kLayerNormEps };

/// The power of 2 by which kernels scale differences: as small as leaves eps above 2^-100, so that
/// what matters beside eps stays above f32's smallest.
inline double layer_norm_scale(double eps) {
  if (!(eps > 0x1p-100)) return 1;
  return std::exp2(std::max(-62.0, std::ceil((-100 - std::log2(eps)) / 2)));
}

template <typename Row>
void layer_norm_row(Row& row) {
  const auto width = row.size(kLayerNormC);
  const auto n = static_cast<double>(width);
  const double eps = row.scalar(kLayerNormEps), scale = layer_norm_scale(eps);
  const auto x = [&](auto c) { return row.load(kLayerNormX, c); };
  const double most = row.max(width, [&](auto c) { return std::abs(x(c)); });
  const SumWalk sum = row.walk(width, x);
  const double mean = sum.sum() / n;
  const auto difference = [&](auto c) { return x(c) - mean; };
  const SumWalk differences = row.walk(width, difference);
  const double squares = row.sum(width, [&](auto c) { return difference(c) * difference(c); });
  const double fourth = row.sum(width, [&](auto c) { return std::pow(difference(c), 4); });
  const double with_eps = squares / n + eps, factor = 1 / std::sqrt(with_eps);

  const double first =
      (kernels::sum_roundings(width, sum) / n + 2 * std::abs(mean)) * kRounding;  // δ
  const double second =
      (kernels::sum_roundings(width, differences) + differences.sizes().size) / n +
      128 * first;  // E
  const double variance =
      ((kernels::sum_roundings(width, squares, fourth) + 4) * (squares / n + first * first) +
       2 * first * second + 3 * first * first + 0x1p-126 / (scale * scale) / kRounding) /
      with_eps;
  const double held = n * (squares / n + first * first) * scale * scale;
  const bool lost = (std::isfinite(most) && n * most >= 0x1p126) || held >= 0x1p126 ||
                    variance * kRounding > 0x1p-6 || !(with_eps > 0);
  row.each(width, [&](auto c) {
    const double weight = row.has(kLayerNormWeight) ? row.load_column(kLayerNormWeight, c) : 1;
    const double bias = row.has(kLayerNormBias) ? row.load_column(kLayerNormBias, c) : 0;
    const double normed = difference(c) * factor, y = normed * weight + bias;
    // Below 2^-126 roundings of f32 are absolute.
    const double tiny = 0x1p-146 / kRounding;
    const double normed_off = factor * (second + 2 * std::abs(difference(c)) + 5 * first + tiny) +
                              std::abs(normed) * (variance / 2 + 6);
    row.store(
        0, c, y,
        lost ? -1 : std::abs(weight) * (normed_off + std::abs(normed) + 0x1p-124) + std::abs(y));
  });
}

}  // namespace dlblas::norm
