// The oracle of silu_and_mul's gradient, in f64: s = 1 / (1 + e^−g), t = 1 − s,
// dgate = dy · u · s·(1 + g·t), dup = dy · g·s, of x = [g | u].
// The error it allows, in units u = 2^-24. s: e^−g is off by 4 + 1.25·|g| (silu_and_mul_ref.hpp),
// of which t counts, an addition and a reciprocal make 3. g·t is off by what s is, and by two
// roundings; beyond g = 18, s is 1 and all of g·t is lost. Sum and products of the slope are one
// each, those with dy and u two more. What is below 2^-126 may be 0. Read next:
// ops/oracle_text.hpp, silu_and_mul_backward_program.hpp.
#pragma once

#include "ops/oracle_text.hpp"

namespace dlblas::activation {

enum SiluAndMulBackwardTensor : int { kBackwardDy, kBackwardX, kBackwardDx };
enum SiluAndMulBackwardLetter : int { kBackwardT, kBackwardF };

template <typename Row>
void silu_and_mul_backward_row(Row& row) {
  constexpr double kTiny = 0x1p-119 / kRounding, kSecondOrder = 1.1;
  const auto width = row.size(kBackwardF);
  row.each(width, [&](auto c) {
    const double dy = row.load(kBackwardDy, c), g = row.load(kBackwardX, c);
    const double up = row.load(kBackwardX, width + c);
    const double s = 1 / (1 + std::exp(-g)), t = std::exp(-g) < 1 ? 1 / (1 + std::exp(g)) : 1 - s;
    const double sum = 1 + g * t, slope = s * sum;
    const double s_off = s * (3 + (4 + 1.25 * std::abs(g)) * t);
    const double product_off =
        g > 18 ? g * t / kRounding + std::abs(g) * t : std::abs(g) * (s_off + 2 * t);
    const double slope_off = std::abs(sum) * s_off + s * product_off + 4 * std::abs(slope);
    const double size = std::abs(dy * up);
    row.store(0, c, dy * slope * up,
              kSecondOrder * (slope_off * size) + (size + std::abs(up) * 0x1p-30) * kTiny);
    row.store(0, width + c, dy * g * s,
              kSecondOrder * std::abs(dy * g) * (s_off + 2 * s) + std::abs(dy) * kTiny);
  });
}

}  // namespace dlblas::activation
