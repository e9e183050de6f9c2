// A sum of products in f64, and the error a kernel's f32 sum may have; the oracles of this family
// build on it. In units u = 2^-24: the roundings of sum_error.hpp and, below f32's normal range,
// half of f32's smallest step per product (all of it for bf16, whose dot products on CPUs may treat
// such operands as zero). Read next: ops/mlp/gated_linear/gated_linear_ref.hpp.
#pragma once

#include "ops/common/oracle_text.hpp"

namespace dlblas::mlp {

/// A sum, and the error it may have, in roundings.
struct OffSum {
  double sum, off;
};

/// A dot product: its sum, and what the error depends on.
struct DotSum : OffSum {
  SumSizes sizes;
  double weights;  // Σ|w|
};

/// Row `at` of a weight times the `width` values x(k), which are of x's `dtype`.
template <typename Row, typename X>
DotSum dot_of(const Row& row, DType dtype, std::int64_t width, const X& x, int weight,
              std::int64_t at) {
  const bool flushes = dtype == DType::kBF16;
  SumWalk walk;
  double lost = 0, weights = 0;
  for (std::int64_t k = 0; k < width; ++k) {
    const double a = x(k), b = row.load_row(weight, at, k), product = a * b;
    walk.add(product);
    weights += std::abs(b);
    const bool is_tiny = std::abs(a) < 0x1p-126 || std::abs(b) < 0x1p-126;
    if (flushes && is_tiny && std::isfinite(product)) lost += std::abs(product);
  }
  const double step = flushes ? 0x1p-126 : 0x1p-150;
  const SumSizes sizes = walk.sizes();
  const double off = sum_error(sum_model(width, dtype != DType::kF32), sizes) +
                     (lost + static_cast<double>(width + 1) * step) / kRounding;
  return {{walk.sum(), off}, sizes, weights};
}

}  // namespace dlblas::mlp
