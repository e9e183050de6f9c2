// silu_mul on rows: y = silu(gate) · up, of two tensors, in f32, one rounding; with cast_before_mul
// silu(gate) is rounded, too. Compiled by NVRTC and, per instruction set, by the build; see
// device/row/program.hpp.
#pragma once

#include "ops/activation/gates.hpp"

namespace dlblas::activation {

/// silu with the exponential and the division of eager PyTorch. A GPU's fast ones differ by some
/// ulp, which moves roundings, and lose normal results below −87.
template <typename Values>
DLBLAS_ROW Values eager_silu(const Values& x) {
#if defined(__CUDACC_RTC__)
  return for_each_value(x, [](float v) { return v / (1.0f + expf(-v)); });
#else
  return silu(x);
#endif
}

template <typename Target>
struct SiluMul : RowProgram {
  static constexpr Operand<0> kGate{};
  static constexpr Operand<1> kUp{};
  static constexpr Operand<2> kY{};
  static constexpr int kCastBeforeMul = 0;  // option
  using Access = typename Target::Access;
  using Values = typename Target::Values;

  struct Loaded {
    RowWords<Target, kGate> gate;
    RowWords<Target, kUp> up;
  };
  using Kept = Loaded;

  DLBLAS_ROW void load(Loaded& in, const Access& at) {
    in.gate = at.load(kGate);
    in.up = at.load(kUp);
  }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept = in; }
  DLBLAS_ROW void store(const Kept& kept, const Columns&, const Stats&, const Access& at) {
    Values gate = values(kept.gate);
    gate = at.option(kCastBeforeMul) ? at.round(kY, eager_silu(gate)) : SiluGate::value(gate);
    at.store(kY, gate * values(kept.up));
  }
};

}  // namespace dlblas::activation
