// rms_norm_rope: a token's heads, normalised over all of them, then rotated by the token's row of
// tables, of which the first half belongs to both channels of a pair. Squares are summed in f32 of
// values that a power of 2 scales, as layer_norm's; one rounding, at the store. A column is a pair.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "ops/rope/rotation.hpp"

namespace dlblas::rope {

template <typename Target>
struct RmsNormRope : Rotation<Target> {
  using Base = Rotation<Target>;
  using Access = typename Base::Access;
  using Values = typename Base::Values;
  using Total = typename Target::Total;
  static constexpr Operand<2> kWeight{};
  static constexpr Operand<3> kCos{};
  static constexpr Operand<4> kSin{};
  enum Scalars : int { kEps, kInverseWidth, kScale };  // RowCall::f; eps scaled
  static constexpr int kStages = 1;
  static constexpr int kScopes[] = {kRowScope};
  static constexpr bool kZeroNeutral = true, kColumnsAfterRow = false;

  using typename Base::Kept, typename Base::Loaded;
  struct Columns {
    RowWords<Target, kCos> cos;
    RowWords<Target, kSin> sin;
  };
  struct Stats {
    float factor;
  };

  DLBLAS_ROW void load_columns(Columns& columns, const Access& at) {
    columns.cos = at.load(kCos), columns.sin = at.load(kSin);
  }

  DLBLAS_ROW typename Target::Sum partial(Stage<0>) { return {}; }
  template <typename Part>
  DLBLAS_ROW void accumulate(Stage<0>, Part& part, const Kept& kept, const Columns&, const Stats&,
                             const Access& at) {
    const Values scale(at.call.f[kScale]);
    const Values low = values(kept.low) * scale, high = values(kept.high) * scale;
    part.add_product(low, low), part.add_product(high, high);
  }
  DLBLAS_ROW void finalize(Stage<0>, Stats& stats, Total sum, const RowCall& call) {
    const Total mean =
        sum * static_cast<Total>(call.f[kInverseWidth]) + static_cast<Total>(call.f[kEps]);
    stats.factor = Target::Math::rsqrt(mean) * call.f[kScale];
  }

  /// The weight is read here: over the reduction it would take as many registers as the row, or
  /// twice as many in f32, which spill.
  DLBLAS_ROW void store(const Kept& kept, const Columns& columns, const Stats& stats,
                        const Access& at) {
    const Values factor(stats.factor);
    const auto &cos = values(columns.cos), &sin = values(columns.sin);
    const Values low = values(kept.low, at.unpack(Stage<1>{})) * factor * values(at.load(kWeight));
    const Values high = values(kept.high, at.unpack(Stage<1>{})) * factor *
                        values(at.load(kWeight, at.option(kPairs)));
    Base::turn(low, high, cos, sin, cos, sin, at);
  }
};

}  // namespace dlblas::rope
