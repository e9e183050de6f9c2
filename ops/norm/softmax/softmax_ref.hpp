// The oracle of softmax: y = e^(x − max) / Σ e^(x − max), in f64.
// The error it allows, in units u = 2^-24: those of the exponential and of the sum
// (ops/common/softmax_sum.hpp). The sum's last rounding (1), the reciprocal (2), the product (1)
// and second-order terms (1) add 5. Values below 2^-125 may be 0. Read next:
// ops/common/softmax_sum.hpp, softmax_program.hpp.
#pragma once

#include "ops/common/softmax_sum.hpp"

namespace dlblas::norm {

enum SoftmaxTensor : int { kSoftmaxX, kSoftmaxY };
enum SoftmaxLetter : int { kSoftmaxT, kSoftmaxC };

template <typename Row>
void softmax_row(Row& row) {
  const auto width = row.size(kSoftmaxC);
  const auto x = [&](auto c) { return row.load(kSoftmaxX, c); };
  const SoftmaxSum of = softmax_sum(row, width, x);
  row.each(width, [&](auto c) {
    const double d = of.most - x(c), value = std::exp(-d) / of.sum;
    row.store(0, c, value, value * (5 + of.off + power_error(d)));
  });
}

}  // namespace dlblas::norm
