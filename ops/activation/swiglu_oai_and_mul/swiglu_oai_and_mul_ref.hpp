// The oracle of swiglu_oai_and_mul: y = (u + 1) · g · σ(α·g), g = min(gate, limit), u = up clamped
// to ±limit, in f64.
// The error it allows, in units u = 2^-24: g and u have an error of 1 where they equal the limit,
// which is rounded to f32, and α·g one of 3; u + 1 has one of |u| and its sum's rounding; the
// products add 2, and g adds 1. A GPU's reciprocal is 0 beyond 2^126, where |α·g| is below 88.
// Read next: ops/activation/gates_ref.hpp, swiglu_oai_and_mul_program.hpp.
#pragma once

#include "ops/activation/gates_ref.hpp"

namespace dlblas::activation {

enum SwigluScalar : int { kSwigluAlpha, kSwigluLimit, kSwigluInterleaved };

template <typename Row>
void swiglu_oai_and_mul_row(Row& row) {
  const auto width = row.size(kF);
  const double alpha = row.scalar(kSwigluAlpha), limit = row.scalar(kSwigluLimit);
  const bool pairs = row.integer(kSwigluInterleaved) != 0;
  row.each(width, [&](auto c) {
    const double gate = row.load(kX, pairs ? 2 * c : c);
    const double up = row.load(kX, pairs ? 2 * c + 1 : width + c);
    const double g = gate > limit ? limit : gate;  // NaN stays
    const double u = up > limit ? limit : up < -limit ? -limit : up;
    const auto [s, t, off] = sigmoid_point(alpha * g, 3);
    const double size = std::abs(g) * (off + 3 * s), value = g * s;
    const double factor_off = std::abs(u) + std::abs(u + 1);
    row.store(0, c, (u + 1) * value,
              kSecondOrder * (std::abs(u + 1) * size + factor_off * std::abs(value)) +
                  std::abs(u + 1) * kTiny * std::max(1.0, 1 / alpha));
  });
}

}  // namespace dlblas::activation
