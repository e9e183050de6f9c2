// Channels that are normalised, then rotated; shared by the programs of rms_norm_rope and
// qk_norm_rope. Squares are summed in f32, of values scaled by a power of 2, as in layer_norm. A
// column is a pair. Read next: ops/rope/rms_norm_rope/rms_norm_rope_program.hpp,
// ops/common/mean_square.hpp (fill).
#pragma once

#include "ops/rope/rotation.hpp"

namespace dlblas::rope {

template <typename Target>
struct NormRotation : Rotation<Target> {
  using Values = typename Target::Values;
  using Access = typename Target::Access;
  using Total = typename Target::Total;
  static constexpr Operand<2> kWeight{};
  enum Scalars : int { kEps, kInverseWidth, kScale };  // RowCall::f; eps scaled
  static constexpr int kStages = 1;
  static constexpr bool kZeroNeutral = true;

  DLBLAS_ROW typename Target::Sum partial(Stage<0>) { return {}; }
  template <typename Part, typename Kept, typename Columns, typename Stats>
  DLBLAS_ROW void accumulate(Stage<0>, Part& part, const Kept& kept, const Columns&, const Stats&,
                             const Access& at) {
    const Values scale(at.call.f[kScale]);
    const Values low = values(kept.low) * scale, high = values(kept.high) * scale;
    part.add_product(low, low), part.add_product(high, high);
  }
  /// The factor that values are multiplied by, from their sum of squares.
  DLBLAS_ROW float factor_of(Total sum, const RowCall& call) {
    const Total mean =
        sum * static_cast<Total>(call.f[kInverseWidth]) + static_cast<Total>(call.f[kEps]);
    return Target::Math::rsqrt(mean) * call.f[kScale];
  }
  template <typename Words, typename Weight>
  DLBLAS_ROW Values normed(const Words& x, float factor, const Weight& weight, const Access& at) {
    return values(x, at.unpack(Stage<1>{})) * Values(factor) * values(weight);
  }
};

}  // namespace dlblas::rope
