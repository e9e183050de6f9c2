// What the mlp family's oracles share: the gates in f64, and their allowed error in units
// u = 2^-24. A gate's argument is a sum with an error of some roundings. The gate passes it on by
// its slope there, which the error may change, and at most by its largest slope. Its own functions
// add theirs: exp is good to 4 + 1.25·|x| ulp (ops/common/silu_point.hpp), erf to 1.5e-7, which
// is 1.3·|x| of a result; and roundings of both halves. Sums over different weights have
// independent errors: their contributions to the product add up as squares do. Read next:
// ops/common/dot_ref.hpp, gated_linear/gated_linear_ref.hpp.
#pragma once

#include "ops/common/dot_ref.hpp"
#include "ops/common/silu_point.hpp"
#include "ops/mlp/gate.hpp"

namespace dlblas::mlp {

using activation::GatePoint;

DLBLAS_ORACLE GatePoint gelu_tanh_point(double x) {
  constexpr double kA = 1.5957691216057308, kB = kA * 0.044715;
  const double y = x * (kA + kB * x * x), inner = kA + 3 * kB * x * x;
  const auto [s, t, off] = activation::sigmoid_point(y, 5);
  return {x * s, std::abs(x) * (off + s), s + s * t * x * inner, 0};
}

DLBLAS_ORACLE GatePoint gelu_point(double x) {
  const double share = 0.5 * (1 + std::erf(x / std::sqrt(2.0)));
  const double density = std::exp(-x * x / 2) * 0.3989422804014327;
  return {0.5 * x * (1 + std::erf(x / std::sqrt(2.0))), 4 * std::abs(x), share + x * density, 0};
}

/// A gate's value and slope, and the value's allowed error for an exact argument.
DLBLAS_ORACLE GatePoint gate_point(Gate gate, double x) {
  switch (gate) {
    case Gate::kSilu: {
      const GatePoint point = activation::SiluPoint::at(x);
      return {x / (1 + std::exp(-x)), point.value_off, point.slope, 0};
    }
    case Gate::kGelu:
      return gelu_point(x);
    case Gate::kGeluTanh:
      return gelu_tanh_point(x);
    case Gate::kRelu:
      break;
  }
  return {x < 0 ? 0 : x, 0, x < 0 ? 0.0 : 1.0, 0};
}

/// gate(g) · u of two inexact sums of `terms` terms, and its allowed error in roundings. Sums of a
/// few terms may have the same errors.
DLBLAS_ORACLE OffSum gated_of(std::int64_t terms, Gate gate, const OffSum& g, const OffSum& u) {
  const GatePoint point = gate_point(gate, g.sum);
  // Infinities and NaN must match exactly.
  if (!std::isfinite(g.sum) || !std::isfinite(u.sum)) return {point.value * u.sum, 0};
  const double distance = g.off * kRounding, size = std::abs(point.value);
  const double bends = gate == Gate::kRelu ? (std::abs(g.sum) <= distance ? 1.0 : 0.0) : distance;
  const double passed = std::min(1.13, std::abs(point.slope) + bends) * g.off;
  const double alike = std::min(1.0, 2 / std::sqrt(static_cast<double>(terms)));
  const double sums = (1 + 0.42 * alike) * std::hypot(std::abs(u.sum) * passed, size * u.off);
  const double functions = activation::kSecondOrder * (point.value_off + 2 * size);
  return {point.value * u.sum,
          sums + std::abs(u.sum) * (functions + activation::kTiny) + passed * u.off * kRounding};
}

template <typename Row>
void store_gated(Row& row, std::int64_t column, std::int64_t terms, Gate gate, const OffSum& g,
                 const OffSum& u) {
  const OffSum y = gated_of(terms, gate, g, u);
  row.store(0, column, y.sum, y.off);
}

}  // namespace dlblas::mlp
