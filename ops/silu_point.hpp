// silu and its slope at one point, in f64, and what kernels may be off by, in units u = 2^-24: what
// oracles of gates share, in any family.
//   e^−y is off by 4 + 1.25·|y| (a GPU's exponential, of a rounded product with a rounded log2 e),
// and by n·|y| where y itself is off by n roundings. Of σ = 1 / (1 + e^−y) that counts 1 − σ times;
// an addition and a reciprocal (2) make 3. A GPU's reciprocal is 0 beyond 2^126: kTiny covers |x|
// times that. kSecondOrder is for products of errors. Read next: ops/activation/gates_ref.hpp.
#pragma once

#include "ops/oracle_text.hpp"

namespace dlblas::activation {

inline constexpr double kTiny = 0x1p-119 / kRounding, kSecondOrder = 1.1;

/// A gate's value and slope at one point, and what each may be off by.
struct GatePoint {
  double value, value_off, slope, slope_off;
};

/// |v|, where what follows it is 0 beyond 10⁴: ∞ · 0 would be no number.
DLBLAS_ORACLE double bounded(double v) { return std::min(std::abs(v), 1e4); }

/// s = σ(y) and t = 1 − s, where y is off by `roundings` of itself.
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
    // Beyond 18, s is 1 and all of x·t is lost.
    const double product_off =
        x > 18 ? x * t / kRounding + std::abs(x) * t : std::abs(x) * (off + 2 * t);
    return {x * s, std::abs(x) * (off + s), slope,
            std::abs(sum) * off + s * product_off + 2 * std::abs(slope)};
  }
};

/// What v · gate is off by, where v is off by `off`: with the product's own rounding.
DLBLAS_ORACLE double gated_off(double v, double off, const GatePoint& gate) {
  const double size = std::abs(gate.value);
  return kSecondOrder * (off * size + std::abs(v) * (gate.value_off + size + kTiny)) +
         0x1p-126 / kRounding;
}

}  // namespace dlblas::activation
