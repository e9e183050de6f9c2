// The oracle of gated_linear: y = act(x · Wgᵀ) ⊙ (x · Wuᵀ), in f64. The error it allows, in units
// u = 2^-24: of each sum as sum_error.hpp has it, and below f32's normal range half its smallest
// step a product (all of it for bf16, whose dot products on CPUs may count such operands as zero);
// of the gate and the product as ops/mlp/gate_ref.hpp has it.
// Read next: ops/oracle_text.hpp, gated_linear.cpp.
#pragma once

#include "ops/mlp/gate_ref.hpp"
#include "ops/oracle_text.hpp"

namespace dlblas::mlp {

enum GatedLinearTensor : int { kX, kGate, kUp, kY };
enum GatedLinearLetter : int { kT, kK, kF };
enum GatedLinearScalar : int { kActivation };

/// A sum and the roundings that it may be off by.
struct OffSum {
  double sum, off;
};

/// Row `row` of a weight times this row of x.
template <typename Row>
OffSum dot_of(const Row& row, int x, int weight, std::int64_t at, std::int64_t width) {
  const bool flushes = row.dtype(x) == DType::kBF16;
  SumWalk walk;
  double lost = 0;
  for (std::int64_t k = 0; k < width; ++k) {
    const double a = row.load(x, k), b = row.load_row(weight, at, k), product = a * b;
    walk.add(product);
    const bool is_tiny = std::abs(a) < 0x1p-126 || std::abs(b) < 0x1p-126;
    if (flushes && is_tiny && std::isfinite(product)) lost += std::abs(product);
  }
  const double step = flushes ? 0x1p-126 : 0x1p-150;
  const SumModel model = sum_model(width, row.dtype(x) != DType::kF32);
  return {walk.sum(), sum_error(model, walk.sizes()) +
                          (lost + static_cast<double>(width + 1) * step) / kRounding};
}

/// One row of gate(x · gᵀ) ⊙ (x · uᵀ).
template <typename Row>
void gated_product_row(Row& row, Gate gate, std::int64_t width, std::int64_t columns) {
  row.each(columns, [&](auto c) {
    const OffSum g = dot_of(row, kX, kGate, c, width), u = dot_of(row, kX, kUp, c, width);
    const double value = gate_of(gate, g.sum) * u.sum;
    // Of infinities and NaN no error is allowed: they are what they are.
    const bool is_exact = !std::isfinite(g.sum) || !std::isfinite(u.sum);
    row.store(0, c, value, is_exact ? 0 : gated_off(gate, g.sum, g.off, u.sum, u.off));
  });
}

template <typename Row>
void gated_linear_row(Row& row) {
  gated_product_row(row, static_cast<Gate>(row.integer(kActivation)), row.size(kK), row.size(kF));
}

}  // namespace dlblas::mlp
