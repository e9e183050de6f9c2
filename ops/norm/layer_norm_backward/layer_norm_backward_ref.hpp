// The oracle of layer_norm's gradient, in f64: with x̂ = (x − mean)·r and g = dy·weight,
// dx = r·(g − mean_C(g) − x̂·mean_C(g·x̂)), dweight = Σ_T dy·x̂, dbias = Σ_T dy.
// The error it allows, in units u = 2^-24. e is the error of x̂ (layer_norm_moments.hpp); w is 1 if
// there is a weight, since g is then rounded, else 0.
//   mean(g): the error of its sum (RowWalk), w of each |g|, and 2 for 1/C and the product with it.
//   mean(g·x̂): the same for the products; from e, two roundings of each term, x̂'s shift times
// mean(g), which all terms share, and x̂'s factor; and 1 where a chain begins.
//   dx: in the bracket, w of g, the errors of both means (the second one's times x̂), e times the
// second mean, one rounding of g − mean(g) and one of the whole; then r, with an error of V/2 + 5,
// and 1 for the product with it.
//   dweight: a term has an error of e·|dy| + |dy·x̂|; dbias: none. Their sums: FoldedColumn, plus
// one rounding from f64.
// Products of two errors add at most 2 %, since V·u is at most 2^-6. f32's smallest normal number
// is an absolute error. Undefined are the rows that layer_norm leaves undefined, and sums beyond
// 2^126. Read next: layer_norm_backward_program.hpp.
#pragma once

#include "device/oracle/fold.hpp"
#include "ops/norm/layer_norm_moments.hpp"

namespace dlblas::norm {

enum LayerNormBackwardTensor : int { kGradDy, kGradX, kGradWeight, kGradDx };
enum LayerNormBackwardScalar : int { kGradEps };

inline constexpr double kSecondOrder = 1.02, kMin = 0x1p-126;

template <typename Row>
void layer_norm_backward_shared(Row& row) {
  const auto x = [&](auto c) { return row.load(kGradX, c); };
  keep_moments(row, layer_norm_moments(row, row.size(kLayerNormC), row.scalar(kGradEps), x));
}

template <typename Row>
void gradients_of_row(Row& row) {
  const auto width = row.size(kLayerNormC);
  const auto n = static_cast<double>(width);
  const bool has_weight = row.has(kGradWeight);
  const double rounded = has_weight ? 1 : 0;
  const auto x = [&](auto c) { return row.load(kGradX, c); };
  const auto m = layer_norm_moments(row, width, row.scalar(kGradEps), x);
  const auto g = [&](auto c) {
    const double dy = row.load(kGradDy, c);
    return has_weight ? dy * row.load_column(kGradWeight, c) : dy;
  };
  const auto product = [&](auto c) { return g(c) * m.normed(x(c)); };
  const kernels::RowWalk gradients = row.walk(width, g), products = row.walk(width, product);
  const double mean = gradients.sum() / n, slope = products.sum() / n;
  const double mean_off =
      (gradients.roundings() + rounded * gradients.size()) / n + 2 * std::abs(mean) + kMin;
  const double slope_off = (products.roundings() + (3 + rounded) * products.size()) / n +
                           m.shift() * std::abs(mean) + (m.factor() + 2) * std::abs(slope) + kMin;
  const bool lost = m.lost || gradients.overflows() || products.overflows();
  row.each(width, [&](auto c) {
    const double normed = m.normed(x(c)), centred = g(c) - mean, bracket = centred - normed * slope;
    const double off = rounded * std::abs(g(c)) + mean_off + std::abs(centred) +
                       slope_off * std::abs(normed) + std::abs(slope) * m.normed_off(x(c)) +
                       std::abs(bracket) * (m.factor() + 2) + 2 * kMin;
    row.store(0, c, m.rstd * bracket, lost ? -1 : kSecondOrder * m.rstd * off + kMin);
  });
}

template <typename Row>
void gradients_of_columns(Row& row) {
  const std::int64_t rows = row.size(kLayerNormT);
  bool lost = false;
  for (std::int64_t t = 0; t < rows; ++t) lost = lost || kept_moments(row, t).lost;
  row.each(row.size(kLayerNormC), [&](auto c) {
    kernels::FoldedColumn weight, bias;
    for (std::int64_t t = 0; t < rows; ++t) {
      const auto m = kept_moments(row, t);
      const double x = row.load_row(kGradX, t, c), dy = row.load_row(kGradDy, t, c);
      const double term = dy * m.normed(x);
      weight.add(term, std::abs(dy) * m.normed_off(x) + std::abs(term),
                 m.shift() * dy + (m.factor() + 3) * term);
      bias.add(dy, 0, 0);
    }
    row.store(1, c, weight.sum(), lost ? -1 : kSecondOrder * weight.magnitude());
    row.store(2, c, bias.sum(), bias.magnitude());
  });
}

template <typename Row>
void layer_norm_backward_row(Row& row) {
  if (row.index() < row.size(kLayerNormT)) gradients_of_row(row);
  if (row.index() == 0) gradients_of_columns(row);
}

#if !defined(__CUDACC_RTC__)
inline kernels::SharedSize layer_norm_backward_size(const Args& args) {
  const std::int64_t rows = args.letters[kLayerNormT];
  return {rows, rows * kMomentValues};
}
#endif

}  // namespace dlblas::norm
