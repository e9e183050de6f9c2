// Gates applied to rows element by element: y = gate(x), and its gradient dx = dy · gate′(x). In
// f32, one rounding. Read next: gates.hpp, silu/silu_program.hpp.
#pragma once

#include "ops/activation/gates.hpp"

namespace dlblas::activation {

template <typename Target, typename Gate>
struct Plain : RowProgram {
  static constexpr Operand<0> kX{};
  static constexpr Operand<1> kY{};
  using Access = typename Target::Access;

  struct Loaded {
    RowWords<Target, kX> x;
  };
  using Kept = Loaded;

  DLBLAS_ROW void load(Loaded& in, const Access& at) { in.x = at.load(kX); }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept = in; }
  DLBLAS_ROW void store(const Kept& kept, const Columns&, const Stats&, const Access& at) {
    at.store(kY, Gate::value(values(kept.x)));
  }
};

template <typename Target, typename Gate>
struct PlainBackward : RowProgram {
  static constexpr Operand<0> kDy{};
  static constexpr Operand<1> kX{};
  static constexpr Operand<2> kDx{};
  using Access = typename Target::Access;
  using Values = typename Target::Values;

  struct Loaded {
    RowWords<Target, kDy> dy;
    RowWords<Target, kX> x;
  };
  using Kept = Loaded;

  DLBLAS_ROW void load(Loaded& in, const Access& at) {
    in.dy = at.load(kDy);
    in.x = at.load(kX);
  }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept = in; }
  DLBLAS_ROW void store(const Kept& kept, const Columns&, const Stats&, const Access& at) {
    Values value;  // of no use here: the compiler drops it
    at.store(kDx, values(kept.dy) * Gate::slope(values(kept.x), value));
  }
};

}  // namespace dlblas::activation
