// The gates of the mlp family in f64, and how far kernels may be off: what oracles share.
// A gate is given a sum that is off itself, by `off` roundings of f32, and stretches that by its
// largest slope. Its own functions are good to 16 roundings of the argument: erf to 1.5e-7, exp to
// 4 + |x| units of the last place, of both what weighs in a result of x's size.
// Read next: gated_linear/gated_linear_ref.hpp.
#pragma once

#include "ops/mlp/dot_ref.hpp"
#include "ops/mlp/gate.hpp"

namespace dlblas::mlp {

DLBLAS_ORACLE double gate_of(Gate gate, double x) {
  switch (gate) {
    case Gate::kSilu:
      return x / (1 + std::exp(-x));
    case Gate::kGelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Gate::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case Gate::kRelu:
      break;
  }
  return x < 0 ? 0 : x;
}

/// The largest |slope|, rounded up.
DLBLAS_ORACLE double stretch_of(Gate gate) { return gate == Gate::kRelu ? 1 : 1.13; }

/// Roundings of gate(x) where x is off by `off`.
DLBLAS_ORACLE double gate_off(Gate gate, double x, double off) {
  return stretch_of(gate) * off + (gate == Gate::kRelu ? 0 : 16 * std::abs(x));
}

/// Roundings of gate(x) · y, of sums that are off by as many.
DLBLAS_ORACLE double gated_off(Gate gate, double x, double x_off, double y, double y_off) {
  const double off = gate_off(gate, x, x_off);
  const double value = gate_of(gate, x), size = std::abs(value);
  return std::abs(y) * off + size * y_off + 2 * size * std::abs(y) + 0x1p-24 * off * y_off;
}

/// Stores gate(g) · u of two sums that may be off.
template <typename Row>
void store_gated(Row& row, std::int64_t column, Gate gate, const OffSum& g, const OffSum& u) {
  // Of infinities and NaN no error is allowed: they are what they are.
  const bool is_exact = !std::isfinite(g.sum) || !std::isfinite(u.sum);
  row.store(0, column, gate_of(gate, g.sum) * u.sum,
            is_exact ? 0 : gated_off(gate, g.sum, g.off, u.sum, u.off));
}

}  // namespace dlblas::mlp
