// The oracle of silu_mul: y = silu(gate) · up, in f64; with cast_before_mul silu(gate) is rounded
// to the dtype, and near a tie a kernel may round to the other neighbour. The gate's error is that
// of ops/common/silu_point.hpp; the product adds a rounding. Read next: ops/common/tie_ref.hpp,
// silu_mul_program.hpp.
#pragma once

#include "ops/activation/gates_ref.hpp"
#include "ops/common/tie_ref.hpp"

namespace dlblas::activation {

enum SiluMulTensor : int { kMulGate, kMulUp, kMulY };
enum SiluMulLetter : int { kMulT, kMulF };
enum SiluMulScalar : int { kMulCast };

template <typename Row>
void silu_mul_row(Row& row) {
  const DType dtype = row.dtype(kMulGate);
  const bool cast = row.integer(kMulCast) != 0 && dtype != DType::kF32;
  row.each(row.size(kMulF), [&](auto c) {
    const double up = row.load(kMulUp, c);
    const GatePoint point = SiluPoint::at(row.load(kMulGate, c));
    norm::OffValue gate = {point.value, kSecondOrder * point.value_off + kTiny};
    if (cast) gate = norm::rounded_between(dtype, gate.value, gate.off);
    const double off = gate.off + kSecondOrder * std::abs(gate.value);
    row.store(0, c, gate.value * up, std::abs(up) * off);
  });
}

}  // namespace dlblas::activation
