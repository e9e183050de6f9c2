// The oracle of log_softmax's gradient, in f64: dx = dy − e^y·s, s = Σ dy.
// The error it allows, in units u = 2^-24: for s, the error of its sum (RowWalk) and its rounding;
// for e^y, 4 + 1.25·|y| (a GPU's exponential of a rounded product with a rounded log2 e); 1 for the
// product (a CPU without fma), 1 for the difference, and 1 of second order. An e^y below 2^-125 may
// be 0. Undefined: rows whose sum leaves f32's range, and elements whose e^y does.
// Read next: ops/common/oracle_text.hpp, log_softmax_backward_program.hpp.
#pragma once

#include "ops/common/oracle_text.hpp"

namespace dlblas::norm {

enum LogSoftmaxBackwardTensor : int { kLogSoftmaxBackwardDy, kLogSoftmaxBackwardY };
enum LogSoftmaxBackwardLetter : int { kLogSoftmaxBackwardT, kLogSoftmaxBackwardC };

template <typename Row>
void log_softmax_backward_row(Row& row) {
  constexpr double kMin = 0x1p-125, kMax = 0x1p127;
  const auto width = row.size(kLogSoftmaxBackwardC);
  const auto dy = [&](auto c) { return row.load(kLogSoftmaxBackwardDy, c); };
  const kernels::RowWalk walk = row.walk(width, dy);
  const double sum = walk.sum(), sum_off = walk.roundings() + std::abs(sum);
  row.each(width, [&](auto c) {
    const double y = row.load(kLogSoftmaxBackwardY, c), power = std::exp(y);
    const double term = power * sum, value = dy(c) - term;
    const double off = std::abs(term) * (6 + 1.25 * std::min(std::abs(y), 128.0)) +
                       power * sum_off + std::abs(value) + (std::abs(sum) + 1) * (kMin / kRounding);
    const bool lost = walk.overflows() || (std::isfinite(y) && power * (1 + std::abs(sum)) >= kMax);
    row.store(0, c, value, lost ? -1 : off);
  });
}

}  // namespace dlblas::norm
