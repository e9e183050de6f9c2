// The oracle of softmax: y = e^(x − max) / Σ e^(x − max), in f64.
// The error it allows, in units u = 2^-24. Of e^(x − max), d = max − x, nothing at d = 0, else
// 4 + 2.25·d: an exponential is good to 4 (the GPU's), d is rounded once, and a GPU makes
// 2^(d·log2 e) of it, a product of a rounded constant. The sum is off by that error's mean over its
// terms, by its additions, and, where sums are scaled as the maximum grows (variant 1), by half an
// exponential for each doubling of the terms. The sum's last rounding, the reciprocal (2), the
// product and what is of second order make 5. What is below 2^-125 may be 0. Read next:
// ops/oracle_text.hpp, softmax_program.hpp.
#pragma once

#include "ops/oracle_text.hpp"

namespace dlblas::norm {

enum SoftmaxTensor : int { kSoftmaxX, kSoftmaxY };
enum SoftmaxLetter : int { kSoftmaxT, kSoftmaxC };

template <typename Row>
void softmax_row(Row& row) {
  const auto width = row.size(kSoftmaxC);
  const double most = row.max(width, [&](auto c) { return row.load(kSoftmaxX, c); });
  const auto power = [&](auto c) { return std::exp(row.load(kSoftmaxX, c) - most); };
  const auto error = [&](auto c) {
    const double d = most - row.load(kSoftmaxX, c);
    return d > 0 ? 4 + 2.25 * std::min(d, 128.0) : 0;  // beyond, e^−d is 0
  };
  const double sum = row.sum(width, power);
  const double squares = row.sum(width, [&](auto c) { return power(c) * power(c); });
  const double mean = row.sum(width, [&](auto c) { return power(c) * error(c); }) / sum;
  const double all = 5 + mean + std::log2(static_cast<double>(width)) / 2 +
                     kernels::sum_roundings(width, sum, squares);
  row.each(width, [&](auto c) {
    const double value = power(c) / sum;
    row.store(0, c, value, value * (all + error(c)));
  });
}

}  // namespace dlblas::norm
