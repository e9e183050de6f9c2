// Gated products on rows, for the programs of this family: y = gate(g) · u of x = [g | u], and its
// gradient. In f32, one rounding. Read next: gates.hpp, silu_and_mul/silu_and_mul_program.hpp.
#pragma once

#include "ops/activation/gates.hpp"

namespace dlblas::activation {

template <typename Target, typename Gate>
struct Gated : RowProgram {
  static constexpr Operand<0> kX{};
  static constexpr Operand<1> kY{};
  using Access = typename Target::Access;

  struct Loaded {
    RowWords<Target, kX> gate, up;
  };
  using Kept = Loaded;

  DLBLAS_ROW void load(Loaded& in, const Access& at) {
    in.gate = at.load(kX);
    in.up = at.load(kX, at.call.width);
  }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept = in; }
  DLBLAS_ROW void store(const Kept& kept, const Columns&, const Stats&, const Access& at) {
    at.store(kY, Gate::value(values(kept.gate)) * values(kept.up));
  }
};

/// dx = [dy · u · gate′(g) | dy · gate(g)].
template <typename Target, typename Gate>
struct GatedBackward : RowProgram {
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
    const Values dy = values(kept.dy), gate = values(kept.gate);
    Values value;
    const Values slope = Gate::slope(gate, value);
    // slope is at most 1.13: this order overflows only where the result does.
    at.store(kDx, dy * slope * values(kept.up));
    at.store(kDx, dy * value, at.call.width);
  }
};

}  // namespace dlblas::activation
