// fused_rotary_emb: rotation by angles computed here, position / scaling · inv_freq, in f32. All
// heads of a token share them, so a CPU computes them once for all.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "ops/rope/rotation.hpp"

namespace dlblas::rope {

template <typename Target>
struct FusedRotaryEmb : Rotation<Target> {
  using Base = Rotation<Target>;
  using Access = typename Base::Access;
  using Values = typename Base::Values;
  static constexpr Operand<2> kFrequency{};
  static constexpr bool kColumnsOnce = true;
  enum Scalars : int { kScaling };  // RowCall::f

  struct Columns {
    Values cos, sin;
  };
  DLBLAS_ROW void load_columns(Columns& columns, const Access& at) {
    const float position = static_cast<float>(at.number()) / at.call.f[kScaling];
    sin_cos(Values(position) * values(at.load_column(kFrequency)), columns.sin, columns.cos);
  }
  template <typename Stats>
  DLBLAS_ROW void store(const typename Base::Kept& kept, const Columns& columns, const Stats&,
                        const Access& at) {
    Base::rotate(kept, columns.cos, columns.sin, columns.cos, columns.sin, at);
  }
};

}  // namespace dlblas::rope
