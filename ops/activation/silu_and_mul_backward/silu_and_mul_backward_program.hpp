// The gradient of silu_and_mul on rows: dx = [dgate | dup] of x = [gate | up]. In f32, one
// rounding. Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "device/row/program.hpp"

namespace dlblas::activation {

template <typename Target>
struct SiluAndMulBackward : RowProgram {
  static constexpr Operand<0> kDy{};
  static constexpr Operand<1> kX{};
  static constexpr Operand<2> kDx{};
  using Access = typename Target::Access;
  using Values = typename Target::Values;

  struct Loaded {
    RowWords<Target, kDy> dy;
    RowWords<Target, kX> gate, up;
  };
  using Kept = Loaded;

  DLBLAS_ROW void load(Loaded& in, const Access& at) {
    in.dy = at.load(kDy);
    in.gate = at.load(kX);
    in.up = at.load(kX, at.call.width);
  }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept = in; }
  DLBLAS_ROW void store(const Kept& kept, const Columns&, const Stats&, const Access& at) {
    const Values one(1.0f), dy = values(kept.dy), gate = values(kept.gate);
    const Values s = sigmoid(gate), slope = s * (one + gate * (one - s));
    // slope is at most 1.1: this order overflows only where the result does.
    at.store(kDx, dy * slope * values(kept.up));
    at.store(kDx, dy * (gate * s), at.call.width);
  }
};

}  // namespace dlblas::activation
