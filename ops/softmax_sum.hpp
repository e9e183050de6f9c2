// Σ e^(x − max) of a row in f64, and what kernels' may be off by: what oracles with a softmax
// share, in any family. In units u = 2^-24, relative. Of e^(x − max), d = max − x, nothing at
// d = 0, else 4 + 2.25·d: an exponential is good to 4 (the GPU's), d is rounded once, and a GPU
// makes 2^(d·log2 e) of it, a product of a rounded constant. The sum is off by that error's mean
// over its terms, by its additions, and, where sums are scaled as the maximum grows (variant 1), by
// half an exponential for each doubling of the terms.
//   Its logarithm is off by as much, absolute; a logarithm near 1 is good to 6, absolute, and
// others to 8 of themselves: 4 units of the last place on a CPU, 4 and a product with a rounded
// ln 2 on a GPU. Read next: ops/oracle_text.hpp, ops/softmax_row.hpp.
#pragma once

#include "ops/oracle_text.hpp"

namespace dlblas::norm {

/// What e^−d may be off by.
DLBLAS_ORACLE double power_error(double d) {
  return d > 0 ? 4 + 2.25 * std::min(d, 128.0) : 0;  // beyond, e^−d is 0
}

struct SoftmaxSum {
  double most, sum, off;
  double log() const { return std::log2(sum) * 0.6931471805599453; }
  double log_off() const { return off + 6 + 8 * std::abs(log()); }
};

template <typename Row, typename X>
SoftmaxSum softmax_sum(const Row& row, std::int64_t width, const X& x) {
  SoftmaxSum made;
  const double most = row.max(width, x);
  const auto power = [&](auto c) { return std::exp(x(c) - most); };
  const double sum = row.sum(width, power);
  const double squares = row.sum(width, [&](auto c) { return power(c) * power(c); });
  const double errors = row.sum(width, [&](auto c) { return power(c) * power_error(most - x(c)); });
  made.most = most, made.sum = sum;
  made.off = errors / sum + std::log2(static_cast<double>(width)) / 2 +
             kernels::sum_roundings(width, sum, squares);
  return made;
}

}  // namespace dlblas::norm
