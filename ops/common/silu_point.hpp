// silu and its slope at one point, in f64, and the error a kernel may have, in units u = 2^-24.
// Shared by the oracles of gates in every family.
//   e^−y has an error of 4 + 1.25·|y| (a GPU's exponential of a rounded product with a rounded log2
// e), plus n·|y| if y itself has an error of n roundings. In σ = 1 / (1 + e^−y) that counts 1 − σ
// times; the addition (1) and the reciprocal (2) add 3. A GPU's reciprocal is 0 beyond 2^126: kTiny
// covers |x| times that. kSecondOrder covers products of errors. Read next:
// ops/activation/gates_ref.hpp.
#pragma once

#include "ops/common/oracle_text.hpp"

namespace dlblas::activation {

inline constexpr double kTiny = 0x1p-119 / kRounding, kSecondOrder = 1.1;

/// A gate's value and slope at one point, and the error of each.
struct GatePoint {
  double value, value_off, slope, slope_off;
};

/// |v|, clamped at 10⁴: its factor is 0 beyond, and ∞ · 0 would be NaN.
DLBLAS_ORACLE double bounded(double v) { return std::min(std::abs(v), 1e4); }

/// s = σ(y) and t = 1 − s, where y has a relative error of `roundings`.
struct SigmoidPoint {
  double s, t, off;
};
DLBLAS_ORACLE SigmoidPoint sigmoid_point(double y, double roundings) {
  const double s = 1 / (1 + std::exp(-y)), t = std::exp(-y) < 1 ? 1 / (1 + std::exp(y)) : 1 - s;
  return {s, t, s * (3 + (4 + (1.25 + roundings) * bounded(y)) * t)};
}

struct SiluPoint {
  DLBLAS_ORACLE static GatePoint at(double x) {
    const auto [s, t, off] = sigmoid_point(x, 0);
    const double sum = 1 + x * t, slope = s * sum;
    // Beyond 18, s is 1 in f32 and all of x·t is lost.
    const double product_off =
        x > 18 ? x * t / kRounding + std::abs(x) * t : std::abs(x) * (off + 2 * t);
    return {x * s, std::abs(x) * (off + s), slope,
            std::abs(sum) * off + s * product_off + 2 * std::abs(slope)};
  }
};

/// The error of v · gate if v has an error of `off`, including the product's own rounding.
DLBLAS_ORACLE double gated_off(double v, double off, const GatePoint& gate) {
  const double size = std::abs(gate.value);
  return kSecondOrder * (off * size + std::abs(v) * (gate.value_off + size + kTiny)) +
         0x1p-126 / kRounding;
}

}  // namespace dlblas::activation
