// The gradient of silu_mul on rows: dgate = dy · up · silu′(gate), dup = dy · silu(gate), in f32,
// one rounding each; with cast_before_mul dy · up and silu(gate) are rounded, too, as the gradient
// of eager PyTorch rounds them. Compiled by NVRTC and, per instruction set, by the build; see
// device/row/program.hpp.
#pragma once

#include "ops/activation/gates.hpp"

namespace dlblas::activation {

template <typename Target>
struct SiluMulBackward : RowProgram {
  static constexpr Operand<0> kDy{};
  static constexpr Operand<1> kGate{};
  static constexpr Operand<2> kUp{};
  static constexpr Operand<3> kDgate{};
  static constexpr Operand<4> kDup{};
  static constexpr int kCastBeforeMul = 0;  // option
  using Access = typename Target::Access;
  using Values = typename Target::Values;

  struct Loaded {
    RowWords<Target, kDy> dy;
    RowWords<Target, kGate> gate;
    RowWords<Target, kUp> up;
  };
  using Kept = Loaded;

  DLBLAS_ROW void load(Loaded& in, const Access& at) {
    in.dy = at.load(kDy);
    in.gate = at.load(kGate);
    in.up = at.load(kUp);
  }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept = in; }
  DLBLAS_ROW void store(const Kept& kept, const Columns&, const Stats&, const Access& at) {
    const Values dy = values(kept.dy), up = values(kept.up);
    Values value;
    const Values slope = SiluGate::slope(values(kept.gate), value);
    if (at.option(kCastBeforeMul)) {
      at.store(kDgate, at.round(kDgate, dy * up) * slope);
      at.store(kDup, dy * at.round(kDup, value));
    } else {
      // slope is at most 1.1: this order overflows only where the result does.
      at.store(kDgate, dy * slope * up);
      at.store(kDup, dy * value);
    }
  }
};

}  // namespace dlblas::activation
