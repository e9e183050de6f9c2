// What the oracles of norms' gradients share: a row's way back through its norm, in f64, and the
// error a kernel may have, in units u = 2^-24. With n = (v − mean)·r and the gradient g of n:
// dv = r·(g − mean_C(g) − n·mean_C(g·n)), for an rms_norm without mean_C(g).
//   mean(g): the error of its sum (RowWalk), of each g, and 2 for 1/C and the product with it.
//   mean(g·n): the same for the products, which have the errors of g and of n and two roundings;
// and 1 where a chain begins.
//   dv: in the bracket the error of g, those of both means (the second one's times n), that of n
// times the second mean, one rounding of g − mean(g) and one of the whole; then r, and the product
// with it. Kernels that multiply each part by r first round g and n times the second mean twice
// more.
// Products of two errors add at most 10 %. f32's smallest normal number is an absolute error.
// Undefined are rows that the norm leaves undefined, and sums beyond 2^126. Read next:
// layer_norm_moments.hpp, layernorm_gated_backward/layernorm_gated_backward_ref.hpp.
#pragma once

#include "device/oracle/fold.hpp"
#include "ops/common/silu_point.hpp"
#include "ops/norm/layer_norm_moments.hpp"

namespace dlblas::norm {

/// A value and the error it may have, in roundings.
struct Rounded {
  double value, off;
};

/// f32's smallest normal number, in roundings.
inline constexpr double kSmallest = 0x1p-126 / kRounding;

/// a · b, rounded.
DLBLAS_ORACLE Rounded product(const Rounded& a, const Rounded& b) {
  const double value = a.value * b.value;
  return {value,
          activation::kSecondOrder * (std::abs(a.value) * b.off + a.off * std::abs(b.value)) +
              std::abs(value) + kSmallest};
}

/// v · silu(z), and v · silu′(z).
DLBLAS_ORACLE Rounded gated(const Rounded& v, const activation::GatePoint& gate) {
  return product(v, {gate.value, gate.value_off + activation::kTiny});
}
DLBLAS_ORACLE Rounded sloped(const Rounded& v, const activation::GatePoint& gate) {
  return product(v, {gate.slope, gate.slope_off + activation::kTiny});
}

/// The means of a row's g and g·n, and what follows from them.
struct NormGradient {
  double mean, slope, mean_off, slope_off;
  double rstd, factor_off;  // r, and its relative error
  bool lost;

  Rounded through(const Rounded& g, const Rounded& n) const {
    const double centred = g.value - mean, bracket = centred - n.value * slope;
    const double off = g.off + mean_off + std::abs(centred) + slope_off * std::abs(n.value) +
                       std::abs(slope) * (n.off + 3 * std::abs(n.value)) + std::abs(bracket) +
                       2 * std::abs(g.value);
    const double error = off + std::abs(bracket) * (factor_off + 1);
    return {rstd * bracket, activation::kSecondOrder * rstd * error + 2 * kSmallest * (1 + rstd)};
  }
};

/// From g(column) and n(column), which are Rounded. `m`: the moments of v; `factor_off`: the
/// relative error of r beyond theirs. `centres`: not an rms_norm.
template <typename Row, typename G, typename N>
NormGradient norm_gradient(const Row& row, std::int64_t width, const LayerNormMoments& m,
                           double factor_off, bool centres, const G& g, const N& n) {
  const auto count = static_cast<double>(width);
  const kernels::RowWalk gradients = row.walk(width, [&](auto c) { return g(c).value; });
  const kernels::RowWalk products =
      row.walk(width, [&](auto c) { return g(c).value * n(c).value; });
  const double g_off = row.sum(width, [&](auto c) { return g(c).off; });
  const double product_off = row.sum(width, [&](auto c) {
    const Rounded a = g(c), b = n(c);
    return std::abs(a.value) * b.off + a.off * std::abs(b.value) + 2 * std::abs(a.value * b.value);
  });
  NormGradient made = {};
  made.rstd = m.rstd, made.factor_off = m.factor() + factor_off;
  made.slope = products.sum() / count;
  made.slope_off = (products.roundings() + products.size() + product_off) / count +
                   2 * std::abs(made.slope) + kSmallest;
  if (centres) {
    made.mean = gradients.sum() / count;
    made.mean_off = (gradients.roundings() + g_off) / count + 2 * std::abs(made.mean) + kSmallest;
  }
  made.lost = m.lost || gradients.overflows() || products.overflows();
  return made;
}

/// Adds a term of a result over columns: where rows are alike, so are their errors.
DLBLAS_ORACLE void add_term(kernels::FoldedColumn& column, const Rounded& term) {
  column.add(term.value, term.off, std::copysign(term.off, term.value));
}

}  // namespace dlblas::norm
