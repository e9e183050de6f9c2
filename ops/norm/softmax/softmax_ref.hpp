// The oracle of softmax: y = e^(x − max) / Σ e^(x − max), in f64.
// The error it allows, in units u = 2^-24: e^d is off by 4 + 2·|d| (d = x − max is rounded once,
// and a GPU makes 2^(d·log2 e)); the sum by that error's mean over its terms and by its chain of
// additions; reciprocal, product and store by 6. What is below 2^-125 may be 0. Read next:
// kernels/row_reference.hpp, softmax_program.hpp.
#pragma once

#include <cmath>

#include "kernels/row_reference.hpp"

namespace dlblas::norm {

enum SoftmaxTensor : int { kSoftmaxX, kSoftmaxY };
enum SoftmaxLetter : int { kSoftmaxT, kSoftmaxC };

template <typename Row>
void softmax_row(Row& row) {
  const auto width = row.size(kSoftmaxC);
  const double most = row.max(width, [&](auto c) { return row.load(kSoftmaxX, c); });
  const auto power = [&](auto c) { return std::exp(row.load(kSoftmaxX, c) - most); };
  const auto distance = [&](auto c) {
    const double d = most - row.load(kSoftmaxX, c);
    return d < 128 ? d : 128;  // below, e^d is 0
  };
  const double sum = row.sum(width, power);
  const double error = row.sum(width, [&](auto c) { return power(c) * distance(c); }) / sum;
  const double chain = 14 + static_cast<double>(kernels::sum_chain(width)) + 2 * error;
  row.each(width, [&](auto c) {
    const double value = power(c) / sum;
    row.store(0, c, value, value * (chain + 2 * distance(c)));
  });
}

}  // namespace dlblas::norm
