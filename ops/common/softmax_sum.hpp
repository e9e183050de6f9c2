// Σ e^(x − max) of a row in f64, and the error a kernel's may have. Shared by oracles with a
// softmax in every family. Errors are relative, in units u = 2^-24. With d = max − x, e^(x − max)
// is exact at d = 0 and else has an error of 4 + 2.25·d: an exponential is good to 4 (the GPU's), d
// is rounded once, and a GPU computes 2^(d·log2 e), a product with a rounded constant. The sum's
// error is the mean of that error over its terms, plus that of its additions and, where sums are
// rescaled as the maximum grows (variant 1), half an exponential for each doubling of the number of
// terms.
//   Its logarithm has the same error, now absolute. The logarithm itself is good to 6, absolute,
// near 1, and to 8, relative, elsewhere: 4 ulp on a CPU, 4 and a product with a rounded ln 2 on a
// GPU. Read next: ops/common/oracle_text.hpp, ops/common/softmax_row.hpp.
#pragma once

#include "ops/common/oracle_text.hpp"

namespace dlblas::norm {

/// The error that e^−d may have.
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
