// The oracle of log_softmax: y = (x − max) − log Σ e^(x − max), in f64.
// The error it allows, in units u = 2^-24: that of the sum's logarithm
// (ops/common/softmax_sum.hpp), 1 for the rounding of the sum itself, 1 for x − max and 1 for y.
// Both parts have the same sign: nothing cancels. Read next: ops/common/softmax_sum.hpp,
// log_softmax_program.hpp.
#pragma once

#include "ops/common/softmax_sum.hpp"

namespace dlblas::norm {

enum LogSoftmaxTensor : int { kLogSoftmaxX, kLogSoftmaxY };
enum LogSoftmaxLetter : int { kLogSoftmaxT, kLogSoftmaxC };

template <typename Row>
void log_softmax_row(Row& row) {
  const auto width = row.size(kLogSoftmaxC);
  const auto x = [&](auto c) { return row.load(kLogSoftmaxX, c); };
  const SoftmaxSum of = softmax_sum(row, width, x);
  row.each(width, [&](auto c) {
    const double d = of.most - x(c), value = -d - of.log();
    const double off = of.log_off() + 1 + d + std::abs(value);
    row.store(0, c, value, std::isinf(value) ? 0 : off);
  });
}

}  // namespace dlblas::norm
