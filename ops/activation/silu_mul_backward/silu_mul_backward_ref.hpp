// The oracle of silu_mul's gradient, in f64: dgate = dy · up · silu′(gate), dup = dy · silu(gate);
// with cast_before_mul, dy · up and silu(gate) are rounded to the dtype, and near a tie a kernel
// may round to the other neighbour. The errors of slope and value are those of
// ops/common/silu_point.hpp; each product adds a rounding. Read next: ops/common/tie_ref.hpp,
// silu_mul_backward_program.hpp.
#pragma once

#include "ops/activation/gates_ref.hpp"
#include "ops/common/tie_ref.hpp"

namespace dlblas::activation {

enum SiluMulBackwardTensor : int { kMulBackwardDy, kMulBackwardGate, kMulBackwardUp };
enum SiluMulBackwardResult : int { kMulBackwardDgate, kMulBackwardDup };
enum SiluMulBackwardLetter : int { kMulBackwardT, kMulBackwardF };
enum SiluMulBackwardScalar : int { kMulBackwardCast };

template <typename Row>
void silu_mul_backward_row(Row& row) {
  const DType dtype = row.dtype(kMulBackwardDy);
  const bool cast = row.integer(kMulBackwardCast) != 0 && dtype != DType::kF32;
  row.each(row.size(kMulBackwardF), [&](auto c) {
    const double dy = row.load(kMulBackwardDy, c), up = row.load(kMulBackwardUp, c);
    const GatePoint point = SiluPoint::at(row.load(kMulBackwardGate, c));
    norm::OffValue gate = {point.value, kSecondOrder * point.value_off + kTiny};
    norm::OffValue gated = {dy * up, 0};  // its rounding is counted below
    if (cast) {
      gate = norm::rounded_between(dtype, gate.value, gate.off);
      gated = norm::rounded_product(dtype, dy, up);
    }
    const double size = std::abs(gated.value);
    const double slope_off = kSecondOrder * (point.slope_off + 2 * std::abs(point.slope));
    const double dgate_off = slope_off * size +
                             gated.off * (std::abs(point.slope) + slope_off * kRounding) +
                             (size + std::abs(up) * 0x1p-30) * kTiny;
    // dy · up rounded to ∞, times a slope that may be 0 in f32: ∞ or NaN.
    const bool either = cast && std::isinf(gated.value) && std::abs(point.slope) < 0x1p-119;
    row.store(kMulBackwardDgate, c, gated.value * point.slope, either ? -1 : dgate_off);
    row.store(kMulBackwardDup, c, dy * gate.value,
              std::abs(dy) * (gate.off + kSecondOrder * std::abs(gate.value) + kTiny));
  });
}

}  // namespace dlblas::activation
