// The oracle of group_norm_rows' gradient, in f64 (the formula: group_norm_backward_program.hpp),
// and the error it allows, in units u = 2^-24.
//   n: that of the moments; u: one rounding each for weight and bias.
//   h: with the activation the error of silu's slope, of which u's counts at most half
// (|silu″| ≤ ½), and one rounding; g: one more with a weight.
//   dx: the row's way back (norm_gradient_ref.hpp).
//   dweight: a term has the errors of h and n and one rounding; dbias: h's. Their sums:
// FoldedColumn, plus one rounding from f64.
// Read next: ops/norm/group_norm_rows/group_norm_rows_ref.hpp.
#pragma once

#include "device/oracle/fold.hpp"
#include "ops/norm/norm_gradient_ref.hpp"

namespace dlblas::norm {

enum GroupGradTensor : int {
  kGroupGradDy,
  kGroupGradX,
  kGroupGradWeight,
  kGroupGradBias,
  kGroupGradDx
};
enum GroupGradLetter : int { kGroupGradT, kGroupGradC, kGroupGradGroups, kGroupGradInner };
enum GroupGradScalar : int { kGroupGradEps = 2, kGroupGradActivation };

/// A row's elements, whose weights are those of its phase.
template <typename Row>
struct GroupGradForm {
  const Row& row;
  std::int64_t phase, inner = row.size(kGroupGradInner);
  bool has_weight = row.has(kGroupGradWeight), has_bias = row.has(kGroupGradBias);
  bool silu = row.integer(kGroupGradActivation) == 1;

  Rounded weighted(const Rounded& a, std::int64_t c) const {
    if (!has_weight) return a;
    return product(a, {row.load_row(kGroupGradWeight, phase, c / inner), 0});
  }
  Rounded normed(const LayerNormMoments& m, std::int64_t t, std::int64_t c) const {
    const double x = row.load_row(kGroupGradX, t, c);
    return {m.normed(x), m.normed_off(x) + kSmallest};
  }
  /// h, the gradient of u = n·weight + bias.
  Rounded h(const Rounded& n, std::int64_t t, std::int64_t c) const {
    const Rounded dy = {row.load_row(kGroupGradDy, t, c), 0};
    if (!silu) return dy;
    Rounded u = weighted(n, c);
    if (has_bias) u.value += row.load_row(kGroupGradBias, phase, c / inner);
    if (has_bias) u.off += std::abs(u.value);
    const auto gate = activation::SiluPoint::at(u.value);
    return product(dy, {gate.slope,
                        gate.slope_off + activation::kTiny + activation::kSecondOrder / 2 * u.off});
  }
};

template <typename Row>
void group_norm_backward_shared(Row& row) {
  const auto x = [&](auto c) { return row.load(kGroupGradX, c); };
  keep_moments(row, layer_norm_moments(row, row.size(kGroupGradC), row.scalar(kGroupGradEps), x));
}

template <typename Row>
void group_gradients_of_row(Row& row) {
  const auto width = row.size(kGroupGradC), t = row.index();
  const GroupGradForm<Row> form = {row, t % row.size(kGroupGradGroups)};
  const auto m = kept_moments(row, t);
  const auto n = [&](auto c) { return form.normed(m, t, c); };
  const auto g = [&](auto c) { return form.weighted(form.h(n(c), t, c), c); };
  const NormGradient gradient = norm_gradient(row, width, m, 0, true, g, n);
  row.each(width, [&](auto c) {
    const Rounded dx = gradient.through(g(c), n(c));
    row.store(0, c, dx.value, gradient.lost ? -1 : dx.off);
  });
}

/// dweight and dbias of the row of results that is this phase's.
template <typename Row>
void group_gradients_of_columns(Row& row) {
  const auto rows = row.size(kGroupGradT), groups = row.size(kGroupGradGroups);
  const auto width = row.size(kGroupGradC), phase = row.index();
  const GroupGradForm<Row> form = {row, phase};
  bool lost = false;
  for (std::int64_t t = phase; t < rows; t += groups) lost = lost || kept_moments(row, t).lost;
  const auto channels = (width + form.inner - 1) / form.inner;
  row.each(channels, [&](auto channel) {
    kernels::FoldedColumn weight, bias;
    const std::int64_t end = std::min<std::int64_t>(width, (channel + 1) * form.inner);
    for (std::int64_t t = phase; t < rows; t += groups) {
      const auto m = kept_moments(row, t);
      for (std::int64_t c = channel * form.inner; c < end; ++c) {
        const Rounded n = form.normed(m, t, c), h = form.h(n, t, c);
        if (form.has_weight) add_term(weight, product(h, n));
        if (form.has_bias) add_term(bias, h);
      }
    }
    const auto off = [&](const kernels::FoldedColumn& column, bool there) {
      return lost && there ? -1 : activation::kSecondOrder * column.magnitude();
    };
    row.store(1, channel, weight.sum(), off(weight, form.has_weight));
    row.store(2, channel, bias.sum(), off(bias, form.has_bias && form.silu));
  });
}

template <typename Row>
void group_norm_backward_row(Row& row) {
  if (row.index() < row.size(kGroupGradT)) group_gradients_of_row(row);
  if (row.index() < row.size(kGroupGradGroups)) group_gradients_of_columns(row);
}

#if !defined(__CUDACC_RTC__)
inline kernels::SharedSize group_norm_backward_size(const Args& args) {
  const std::int64_t rows = args.letters[kGroupGradT];
  return {rows, rows * kMomentValues};
}
#endif

}  // namespace dlblas::norm
