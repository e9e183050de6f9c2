// The oracle of layernorm_gated_rows' gradient, in f64 (the formula:
// layernorm_gated_backward_program.hpp), and the error it allows, in units u = 2^-24.
//   n: as in the forward oracle: that of the moments, and with a gate before the norm that of v,
// with its mean's, and of the factor that follows from it.
//   h: with a gate behind the norm the gate's error and one rounding; g: one more with a weight.
//   dx, dz: the row's way back (norm_gradient_ref.hpp), a rounding for each product, and the errors
// of the gate and its slope.
//   dweight: a term has the errors of h and n and one rounding; dbias: h's. Their sums:
// FoldedColumn, plus one rounding from f64.
// Read next: ops/norm/layernorm_gated_rows/layernorm_gated_rows_ref.hpp.
#pragma once

#include "device/oracle/fold.hpp"
#include "ops/norm/norm_gradient_ref.hpp"

namespace dlblas::norm {

enum GatedGradTensor : int {
  kGatedGradDy,
  kGatedGradX,
  kGatedGradWeight,
  kGatedGradBias,
  kGatedGradZ,
  kGatedGradDx
};
enum GatedGradLetter : int { kGatedGradT, kGatedGradC, kGatedGradGroups };
enum GatedGradScalar : int { kGatedGradEps = 1, kGatedGradBehind, kGatedGradRms };

/// What a column needs to know of a row: its moments; the error of v's mean; the factor's.
struct GatedRow {
  LayerNormMoments moments;
  double common, factor_off;
  bool lost() const { return moments.lost || factor_off * kRounding > 0x1p-6; }
};
inline constexpr int kGatedRowValues = kMomentValues + 2;

/// Which form of the norm a call asks for, and its elements.
template <typename Row>
struct GatedForm {
  const Row& row;
  bool gated = row.has(kGatedGradZ), behind = row.integer(kGatedGradBehind) != 0;
  bool rms = row.integer(kGatedGradRms) != 0, before = gated && !behind, after = gated && behind;

  activation::GatePoint gate(std::int64_t t, std::int64_t c) const {
    return activation::SiluPoint::at(row.load_row(kGatedGradZ, t, c));
  }
  Rounded v(std::int64_t t, std::int64_t c) const {
    const double x = row.load_row(kGatedGradX, t, c);
    if (!before) return {x, 0};
    const auto point = gate(t, c);
    return {x * point.value, activation::gated_off(x, 0, point)};
  }
  Rounded normed(const GatedRow& of, std::int64_t t, std::int64_t c) const {
    const Rounded of_v = v(t, c);
    const double n = of.moments.normed(of_v.value);
    const double off = of.moments.normed_off(of_v.value) +
                       of.moments.rstd * (of_v.off + of.common) + std::abs(n) * of.factor_off;
    return {n, activation::kSecondOrder * off + kSmallest};
  }
  /// h, the gradient of n·weight + bias.
  Rounded inner(std::int64_t t, std::int64_t c) const {
    const Rounded dy = {row.load_row(kGatedGradDy, t, c), 0};
    return after ? norm::gated(dy, gate(t, c)) : dy;
  }
};

template <typename Row>
void layernorm_gated_backward_shared(Row& row) {
  const GatedForm<Row> form = {row};
  const auto width = row.size(kGatedGradC), t = row.index();
  const auto v = [&](auto c) { return form.v(t, c).value; };
  const auto v_off = [&](auto c) { return form.v(t, c).off; };
  const double eps = row.scalar(kGatedGradEps), n = static_cast<double>(width);
  const auto m =
      form.rms ? rms_moments(row, width, eps, v) : layer_norm_moments(row, width, eps, v);
  const double common = form.rms ? 0 : row.sum(width, v_off) / n;
  const double moved =
      row.sum(width, [&](auto c) { return std::abs(v(c) - m.mean) * (v_off(c) + common); });
  const double values[] = {
      m.mean,     m.rstd,           m.first, m.second,
      m.variance, m.lost ? 1.0 : 0, common,  form.before ? moved / n * m.rstd * m.rstd : 0};
  for (int i = 0; i < kGatedRowValues; ++i) row.keep(t * kGatedRowValues + i, values[i]);
}

template <typename Row>
GatedRow kept_row(const Row& row, std::int64_t t) {
  const auto value = [&](int i) { return row.kept(t * kGatedRowValues + i); };
  return {{value(0), value(1), value(2), value(3), value(4), value(5) != 0}, value(6), value(7)};
}

template <typename Row>
void gated_gradients_of_row(Row& row) {
  const GatedForm<Row> form = {row};
  const auto width = row.size(kGatedGradC), t = row.index();
  const auto phase = t % row.size(kGatedGradGroups);
  const GatedRow of = kept_row(row, t);
  const bool has_weight = row.has(kGatedGradWeight), has_bias = row.has(kGatedGradBias);
  const auto weighted = [&](const Rounded& a, auto c) {
    return has_weight ? product(a, {row.load_row(kGatedGradWeight, phase, c), 0}) : a;
  };
  const auto n = [&](auto c) { return form.normed(of, t, c); };
  const auto g = [&](auto c) { return weighted(form.inner(t, c), c); };
  const NormGradient gradient =
      norm_gradient(row, width, of.moments, of.factor_off, !form.rms, g, n);
  const bool lost = gradient.lost || of.lost();
  const auto store = [&](int result, auto c, const Rounded& made) {
    row.store(result, c, made.value, lost ? -1 : made.off);
  };
  row.each(width, [&](auto c) {
    const Rounded dv = gradient.through(g(c), n(c));
    if (!form.gated) return store(0, c, dv), store(1, c, {0, 0});
    const auto gate = form.gate(t, c);
    if (form.before) {
      store(0, c, norm::gated(dv, gate));
      store(1, c, sloped(product(dv, {row.load_row(kGatedGradX, t, c), 0}), gate));
      return;
    }
    Rounded y = weighted(n(c), c);
    if (has_bias) {
      y.value += row.load_row(kGatedGradBias, phase, c);
      y.off += std::abs(y.value);
    }
    store(0, c, dv);
    store(1, c, sloped(product(y, {row.load_row(kGatedGradDy, t, c), 0}), gate));
  });
}

template <typename Row>
void gated_gradients_of_columns(Row& row) {
  const GatedForm<Row> form = {row};
  const auto rows = row.size(kGatedGradT), groups = row.size(kGatedGradGroups);
  const bool has_weight = row.has(kGatedGradWeight), has_bias = row.has(kGatedGradBias);
  bool lost = false;
  for (std::int64_t t = row.index(); t < rows; t += groups) lost = lost || kept_row(row, t).lost();
  row.each(row.size(kGatedGradC), [&](auto c) {
    kernels::FoldedColumn weight, bias;
    for (std::int64_t t = row.index(); t < rows; t += groups) {
      const Rounded h = form.inner(t, c);
      if (has_weight) add_term(weight, product(h, form.normed(kept_row(row, t), t, c)));
      if (has_bias) add_term(bias, h);
    }
    row.store(2, c, weight.sum(),
              lost && has_weight ? -1 : activation::kSecondOrder * weight.magnitude());
    row.store(3, c, bias.sum(), bias.magnitude());
  });
}

template <typename Row>
void layernorm_gated_backward_row(Row& row) {
  if (row.index() < row.size(kGatedGradT)) gated_gradients_of_row(row);
  if (row.index() < row.size(kGatedGradGroups)) gated_gradients_of_columns(row);
}

#if !defined(__CUDACC_RTC__)
inline kernels::SharedSize layernorm_gated_backward_size(const Args& args) {
  const std::int64_t rows = args.letters[kGatedGradT];
  return {rows, rows * kGatedRowValues};
}
#endif

}  // namespace dlblas::norm
