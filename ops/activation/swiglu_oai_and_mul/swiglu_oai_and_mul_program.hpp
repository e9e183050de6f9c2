// swiglu_oai_and_mul on rows: y = (u + 1) · g · σ(α · g), g = min(gate, limit), u = up clamped to
// ±limit, in f32, one rounding. Gate and up are columns 2i and 2i + 1 of x, or its halves.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "device/row/program.hpp"

namespace dlblas::activation {

template <typename Target>
struct SwigluOaiAndMul : RowProgram {
  static constexpr Operand<0> kX{};
  static constexpr Operand<1> kY{};
  enum Scalars { kAlpha, kLimit };
  enum Options { kInterleaved };
  using Access = typename Target::Access;
  using Values = typename Target::Values;

  struct Loaded {
    RowWords<Target, kX> gate, up;
  };
  using Kept = Loaded;

  DLBLAS_ROW void load(Loaded& in, const Access& at) {
    if (at.option(kInterleaved))
      at.load_pairs(kX, in.gate, in.up);
    else
      in.gate = at.load(kX), in.up = at.load(kX, at.call.width);
  }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept = in; }
  DLBLAS_ROW void store(const Kept& kept, const Columns&, const Stats&, const Access& at) {
    const float most = at.call.f[kLimit];
    const Values alpha(at.call.f[kAlpha]), limit(most), least(-most);
    const Values gate = min(values(kept.gate), limit);
    const Values up = max(min(values(kept.up), limit), least);
    at.store(kY, (up + Values(1.0f)) * (gate * sigmoid(alpha * gate)));
  }
};

}  // namespace dlblas::activation
