// apply_rotary_pos_emb: rotation by tables with one row per token. The first half of a row is for
// the first channel of each pair, the second half for the second; a table with half the columns
// serves both. All heads of a token share it. With cast_before_sum, both products are rounded
// before they are added. Compiled by NVRTC and, per instruction set, by the build; see
// device/row/program.hpp.
#pragma once

#include "ops/rope/rotation.hpp"

namespace dlblas::rope {

/// An option: HalfTables, and whether products are rounded.
inline constexpr int kApplyHow = 3;
inline constexpr int kCastsBeforeSum = 4;

template <typename Target>
struct ApplyRotaryPosEmb : Rotation<Target> {
  using Base = Rotation<Target>;
  using Access = typename Base::Access;
  using Values = typename Base::Values;
  static constexpr Operand<2> kCos{};
  static constexpr Operand<3> kSin{};

  struct Columns {
    RowWords<Target, kCos> cos_low, cos_high;
    RowWords<Target, kSin> sin_low, sin_high;
  };
  DLBLAS_ROW void load_columns(Columns& columns, const Access& at) {
    const int how = at.option(kApplyHow), pairs = at.option(kPairs);
    columns.cos_low = at.load(kCos), columns.sin_low = at.load(kSin);
    columns.cos_high = how & kHalfCos ? columns.cos_low : at.load(kCos, pairs);
    columns.sin_high = how & kHalfSin ? columns.sin_low : at.load(kSin, pairs);
  }
  DLBLAS_ROW Values term(const Values& x, const Values& factor, const Access& at) {
    return at.round(Base::kOut, x * factor);
  }
  template <typename Stats>
  DLBLAS_ROW void store(const typename Base::Kept& kept, const Columns& columns, const Stats&,
                        const Access& at) {
    if (!(at.option(kApplyHow) & kCastsBeforeSum)) {
      Base::rotate(kept, values(columns.cos_low), values(columns.sin_low), values(columns.cos_high),
                   values(columns.sin_high), at);
      return;
    }
    const Values low = values(kept.low), high = values(kept.high);
    Base::put(term(low, values(columns.cos_low), at) - term(high, values(columns.sin_low), at),
              term(high, values(columns.cos_high), at) + term(low, values(columns.sin_high), at),
              at);
  }
};

}  // namespace dlblas::rope
