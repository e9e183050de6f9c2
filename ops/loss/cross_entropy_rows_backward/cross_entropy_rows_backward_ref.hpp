// The oracle of cross_entropy_rows' gradient, in f64: with p = e^(x − lse) and the row's target t,
// d = p·(g·((1 − ε)·w_t + ε/C·Σw) + dlse) − g·ε/C·w − [c = t]·g·(1 − ε)·w_t, under a soft cap times
// 1 − (x / cap)² of the capped logit.
// Error bounds, in units u = 2^-24: p is the exponential of a difference that is rounded once and
// has the error of the capped logit. The factors take five roundings of each part, the differences
// one each, the cap's slope 19·2 of its square and two. Read next: ops/loss/cross_entropy_ref.hpp,
// cross_entropy_rows_backward_program.hpp.
#pragma once

#include "ops/loss/cross_entropy_ref.hpp"

namespace dlblas::loss {

enum CrossBackwardTensor : int {
  kCrossBackwardDloss,
  kCrossBackwardLogits,
  kCrossBackwardTarget,
  kCrossBackwardLse,
  kCrossBackwardDlse,
  kCrossBackwardWeight,
  kCrossBackwardWeightSum
};

template <typename Row>
void cross_entropy_rows_backward_row(Row& row) {
  const CrossEntropyRow<Row> of{row, kCrossBackwardLogits, kCrossBackwardTarget,
                                kCrossBackwardWeight, kCrossBackwardWeightSum};
  const double lse = row.load(kCrossBackwardLse, 0);
  const double dlse = row.has(kCrossBackwardDlse) ? row.load(kCrossBackwardDlse, 0) : 0;
  const bool ignored = of.ignored(), there = of.there();
  const auto t = of.target();
  const double g = ignored ? 0 : row.load(kCrossBackwardDloss, 0);
  const double weight = ignored ? 0 : there ? of.weight(t) : not_a_number();
  const double taken = g * (1 - of.smoothing()) * weight, shared = g * of.share();
  const double all = of.smoothing() != 0 ? shared * of.weight_sum() : 0;
  const double factor = dlse + taken + all;
  const double factor_off = 5 * (std::abs(dlse) + std::abs(taken) + std::abs(all));
  row.each(of.width(), [&](auto c) {
    if (ignored && dlse == 0) return row.store(0, c, 0, 0);
    const double x = of.x(c), below = lse - x, p = std::exp(-below);
    const double p_off = p * (std::min(norm::power_error(std::abs(below)) + of.x_off(c), 0x1p24));
    const double spread = of.smoothing() != 0 ? shared * of.weight(c) : 0;
    const double one = !ignored && c == t ? taken : 0;
    const double d = p * factor - spread - one;
    double off = std::abs(factor) * p_off + p * (factor_off + std::abs(factor)) +
                 5 * (std::abs(spread) + std::abs(one)) + 0x1p-126 / kRounding;
    double slope = 1, slope_off = 0;
    if (of.cap() != 0) {
      const double square = x / of.cap() * (x / of.cap());
      slope = 1 - square, slope_off = 42 * square + 2;
    }
    off = off * slope + (std::abs(p * factor) + std::abs(spread) + std::abs(one)) * slope_off +
          2 * std::abs(d * slope);
    row.store(0, c, d * slope, p > 0x1p126 ? -1 : off);
  });
}

}  // namespace dlblas::loss
