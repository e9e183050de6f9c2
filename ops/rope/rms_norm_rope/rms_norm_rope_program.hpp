// rms_norm_rope: normalises a token over all its heads, then rotates them by the token's row of the
// tables, whose first half serves both channels of a pair; one rounding, at the store. Compiled by
// NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "ops/rope/norm_rotation.hpp"

namespace dlblas::rope {

template <typename Target>
struct RmsNormRope : NormRotation<Target> {
  using Base = NormRotation<Target>;
  using Access = typename Base::Access;
  using Values = typename Base::Values;
  static constexpr Operand<3> kCos{};
  static constexpr Operand<4> kSin{};
  static constexpr int kScopes[] = {kRowScope};
  static constexpr bool kColumnsAfterRow = false;

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

  DLBLAS_ROW void finalize(Stage<0>, Stats& stats, typename Base::Total sum, const RowCall& call) {
    stats.factor = Base::factor_of(sum, call);
  }

  /// The weight is read here: held across the reduction, it would take as many registers as the
  /// row, or twice as many in f32, and spill.
  DLBLAS_ROW void store(const Kept& kept, const Columns& columns, const Stats& stats,
                        const Access& at) {
    const auto &cos = values(columns.cos), &sin = values(columns.sin);
    const Values low = Base::normed(kept.low, stats.factor, at.load(Base::kWeight), at);
    const Values high =
        Base::normed(kept.high, stats.factor, at.load(Base::kWeight, at.option(kPairs)), at);
    Base::turn(low, high, cos, sin, cos, sin, at);
  }
};

}  // namespace dlblas::rope
