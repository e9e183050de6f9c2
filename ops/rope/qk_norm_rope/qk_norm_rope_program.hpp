// qk_norm_rope: each head of q and k normalised by itself, then its first pairs rotated by the row
// of a table that the token's position chooses. A head is a group of columns; a column is a pair of
// channels: kPairs that are rotated and, behind them, kCopies that are not, which are neighbours or
// lie half of those channels apart, as rotated ones do. Squares are summed in f32 of values that a
// power of 2 scales, as layer_norm's; one rounding, at the store.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "ops/rope/rotation.hpp"

// A CPU's pass over a head stands in the code six times: what switches on types is a call there.
#if defined(__CUDACC_RTC__)
#define DLBLAS_ROW_CALL DLBLAS_ROW
#else
#define DLBLAS_ROW_CALL __attribute__((noinline)) static
#endif

namespace dlblas::rope {

template <typename Target>
struct QkNormRope : Rotation<Target> {
  using Base = Rotation<Target>;
  using Access = typename Base::Access;
  using Values = typename Base::Values;
  using Total = typename Target::Total;
  using typename Base::Loaded;
  static constexpr Operand<2> kWeight{};
  static constexpr Operand<3> kTable{};
  enum Scalars : int { kEps, kInverseWidth, kScale };  // RowCall::f; eps scaled
  static constexpr int kStages = 1;
  static constexpr int kScopes[] = {kGroupScope};
  static constexpr bool kZeroNeutral = true;

  struct Kept {
    RowWords<Target, Base::kX> low, high;
    float factor;
  };
  struct Columns {
    RowWords<Target, kTable> cos, sin;
  };

  template <int kIndex, typename Words>
  DLBLAS_ROW_CALL void load_two(Operand<kIndex> o, Words& low, Words& high, const Access& at) {
    if (at.option(kInterleaved)) return at.load_pairs(o, low, high);
    const bool rotates = Base::rotates(at);
    const int first = rotates ? 0 : at.option(kPairs);
    low = at.load(o, first);
    high = at.load(o, first + at.option(rotates ? kPairs : kCopies));
  }
  DLBLAS_ROW void load(Loaded& in, const Access& at) { load_two(Base::kX, in.low, in.high, at); }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) {
    kept.low = in.low, kept.high = in.high;
  }
  DLBLAS_ROW void load_columns(Columns& columns, const Access& at) {
    const bool rotates = Base::rotates(at);  // else zeros, which nothing reads: g++ 12 warns
    columns.cos = rotates ? at.load(kTable) : at.zeros(kTable);
    columns.sin = rotates ? at.load(kTable, at.option(kPairs)) : at.zeros(kTable);
  }

  DLBLAS_ROW typename Target::Sum partial(Stage<0>) { return {}; }
  template <typename Part, typename Stats>
  DLBLAS_ROW void accumulate(Stage<0>, Part& part, const Kept& kept, const Columns&, const Stats&,
                             const Access& at) {
    const Values scale(at.call.f[kScale]);
    const Values low = values(kept.low) * scale, high = values(kept.high) * scale;
    part.add_product(low, low), part.add_product(high, high);
  }
  DLBLAS_ROW void finalize_group(Stage<0>, Kept& kept, float sum, const Access& at) {
    const Total mean = static_cast<Total>(sum) * static_cast<Total>(at.call.f[kInverseWidth]) +
                       static_cast<Total>(at.call.f[kEps]);
    kept.factor = Target::Math::rsqrt(mean) * at.call.f[kScale];
  }

  /// The weight is read here, since q's and k's differ: heads share the columns.
  template <typename Stats>
  DLBLAS_ROW_CALL void store(const Kept& kept, const Columns& columns, const Stats&,
                             const Access& at) {
    const Values factor(kept.factor);
    RowWords<Target, kWeight> weight_low, weight_high;
    load_two(kWeight, weight_low, weight_high, at);
    const Values low = values(kept.low, at.unpack(Stage<1>{})) * factor * values(weight_low);
    const Values high = values(kept.high, at.unpack(Stage<1>{})) * factor * values(weight_high);
    if (Base::rotates(at)) {
      const auto &cos = values(columns.cos), &sin = values(columns.sin);
      return Base::turn(low, high, cos, sin, cos, sin, at);
    }
    if (at.option(kInterleaved)) return at.store_pairs(Base::kOut, low, high);
    at.store(Base::kOut, low, at.option(kPairs));
    at.store(Base::kOut, high, at.option(kPairs) + at.option(kCopies));
  }
};

}  // namespace dlblas::rope
