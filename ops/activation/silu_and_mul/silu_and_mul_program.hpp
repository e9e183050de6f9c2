// silu_and_mul on rows: y = silu(gate) · up, of x = [gate | up]. Both halves in f32, one rounding.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "device/row/program.hpp"

namespace dlblas::activation {

template <typename Target>
struct SiluAndMul : RowProgram {
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
    at.store(kY, silu(values(kept.gate)) * values(kept.up));
  }
};

}  // namespace dlblas::activation
