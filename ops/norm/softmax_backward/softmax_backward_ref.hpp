// The oracle of softmax's gradient, in f64: dx = y·(dy − s), s = Σ dy·y.
// The error it allows, in units u = 2^-24: for s, the error of its sum (RowWalk), the roundings of
// its terms on a CPU without fma (half a step each, 2^⌊log2⌋), and its own rounding; one for dy −
// s, and one for the product: |y|·(s_off + |dy − s|) + |dx|. f32's smallest normal number is an
// absolute error. Undefined: rows whose sum leaves f32's range.
// Read next: ops/common/oracle_text.hpp, softmax_backward_program.hpp.
#pragma once

#include "ops/common/oracle_text.hpp"

namespace dlblas::norm {

enum SoftmaxBackwardTensor : int { kSoftmaxBackwardDy, kSoftmaxBackwardY };
enum SoftmaxBackwardLetter : int { kSoftmaxBackwardT, kSoftmaxBackwardC };

template <typename Row>
void softmax_backward_row(Row& row) {
  constexpr double kMin = 0x1p-126;
  const auto width = row.size(kSoftmaxBackwardC);
  const auto dy = [&](auto c) { return row.load(kSoftmaxBackwardDy, c); };
  const auto y = [&](auto c) { return row.load(kSoftmaxBackwardY, c); };
  const auto term = [&](auto c) { return dy(c) * y(c); };
  const kernels::RowWalk walk = row.walk(width, term);
  const double terms_off = row.sum(width, [&](auto c) { return power_below(term(c)); });
  const double sum = walk.sum(), sum_off = walk.roundings() + terms_off + std::abs(sum) + kMin;
  row.each(width, [&](auto c) {
    const double centred = dy(c) - sum, value = y(c) * centred;
    const double off = std::abs(y(c)) * (sum_off + std::abs(centred)) + std::abs(value) + kMin;
    row.store(0, c, value, walk.overflows() ? -1 : off);
  });
}

}  // namespace dlblas::norm
