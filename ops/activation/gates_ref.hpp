// The oracles of this family's gates, in f64, and the error a kernel may have, in units u = 2^-24.
// The rows below add one rounding for each product with another factor.
//   Φ(−|x|) = e^(−x²/2)·q(|x|): q has an error of at most 10 (5, and a GPU's reciprocal), the
// exponential one of 8 + 2.25·x²/2, since its argument is rounded, and two products round.
// Read next: ops/common/silu_point.hpp, gates.hpp.
#pragma once

#include "ops/common/silu_point.hpp"

namespace dlblas::activation {

enum GatedTensor : int { kX, kY };
enum GatedLetter : int { kT, kF };
enum GatedBackwardTensor : int { kBackwardDy, kBackwardX, kBackwardDx };
enum GatedBackwardLetter : int { kBackwardT, kBackwardF };

struct GeluPoint {
  DLBLAS_ORACLE static GatePoint at(double x) {
    const double share = 0.5 * std::erfc(-x / std::sqrt(2.0)), tail = std::min(share, 1 - share);
    const double half = x * x / 2, density = std::exp(-half) * 0.3989422804014327;
    const double bell_off = 8 + 2.25 * bounded(half), slope = share + x * density;
    const double off = tail * (12 + bell_off) + (x < 0 ? 0 : share);
    return {x * share, std::abs(x) * (off + share), slope,
            off + bounded(x) * density * (2 + bell_off) + std::abs(slope)};
  }
};

struct GeluTanhPoint {
  DLBLAS_ORACLE static GatePoint at(double x) {
    constexpr double kA = 1.5957691216057308, kB = kA * 0.044715;
    const double y = x * (kA + kB * x * x), inner = kA + 3 * kB * x * x;
    const auto [s, t, off] = sigmoid_point(y, 5);
    const double slope = s + s * t * x * inner, size = bounded(x * inner);
    // s·t is e^−y·s²: 3 for each s, and 8 for products and sums.
    const double product_off = s * t * (4 + 6.25 * bounded(y) + 2 * 3 + 8);
    return {x * s, std::abs(x) * (off + s), slope,
            off + size * product_off + std::abs(slope) + 4 * kTiny};
  }
};

/// One row of y = gate(x).
template <typename Gate, typename Row>
void plain_row(Row& row) {
  row.each(row.size(kF), [&](auto c) {
    const GatePoint gate = Gate::at(row.load(kX, c));
    row.store(0, c, gate.value, kSecondOrder * gate.value_off + kTiny);
  });
}

/// One row of its gradient: dx = dy · slope.
template <typename Gate, typename Row>
void plain_backward_row(Row& row) {
  row.each(row.size(kBackwardF), [&](auto c) {
    const double dy = row.load(kBackwardDy, c);
    const GatePoint gate = Gate::at(row.load(kBackwardX, c));
    const double off = kSecondOrder * (gate.slope_off + std::abs(gate.slope)) + kTiny;
    row.store(0, c, dy * gate.slope, std::abs(dy) * off);
  });
}

/// One row of y = gate(g) · u, of x = [g | u].
template <typename Gate, typename Row>
void gated_row(Row& row) {
  const auto width = row.size(kF);
  row.each(width, [&](auto c) {
    const double up = row.load(kX, width + c);
    const GatePoint gate = Gate::at(row.load(kX, c));
    const double off = kSecondOrder * (gate.value_off + std::abs(gate.value)) + kTiny;
    row.store(0, c, gate.value * up, std::abs(up) * off);
  });
}

/// One row of its gradient: dgate = dy · u · slope, dup = dy · value.
template <typename Gate, typename Row>
void gated_backward_row(Row& row) {
  const auto width = row.size(kBackwardF);
  row.each(width, [&](auto c) {
    const double dy = row.load(kBackwardDy, c), up = row.load(kBackwardX, width + c);
    const GatePoint gate = Gate::at(row.load(kBackwardX, c));
    const double size = std::abs(dy * up);
    const double slope_off = kSecondOrder * (gate.slope_off + 2 * std::abs(gate.slope));
    const double value_off = kSecondOrder * (gate.value_off + std::abs(gate.value));
    row.store(0, c, dy * gate.slope * up,
              slope_off * size + (size + std::abs(up) * 0x1p-30) * kTiny);
    row.store(0, width + c, dy * gate.value, std::abs(dy) * (value_off + kTiny));
  });
}

}  // namespace dlblas::activation
