// qk_norm_rope: normalises each head of q and k by itself, then rotates its first pairs by the
// table row that the token's position selects. A head is a group of columns; a column is a pair of
// channels: kPairs that are rotated, then kCopies that are not. The channels of a pair are
// adjacent, or kPairs apart if rotated and kCopies apart if not. One rounding, at the store, for
// k_out and for its cache, which holds k_out / k_scale.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "ops/rope/norm_rotation.hpp"

namespace dlblas::rope {

inline constexpr int kCaches = 3;  // an option: 0, or how keys go to the cache
enum QkCaching : int { kPlain = 1, kScaled };
inline constexpr int kCacheScale = 3;  // of RowCall::f, behind those of the norm

template <typename Target>
struct QkNormRope : NormRotation<Target> {
  using Base = NormRotation<Target>;
  using Access = typename Base::Access;
  using Values = typename Base::Values;
  using typename Base::Loaded;
  static constexpr Operand<3> kTable{};
  static constexpr Operand<5> kCache{};  // of k, at the token's slot
  static constexpr int kScopes[] = {kGroupScope};

  struct Kept {
    RowWords<Target, Base::kX> low, high;
    float factor;
  };
  struct Columns {
    RowWords<Target, kTable> cos, sin;
  };

  DLBLAS_ROW void load(Loaded& in, const Access& at) {
    Base::load_two(Base::kX, in.low, in.high, at);
  }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) {
    kept.low = in.low, kept.high = in.high;
  }
  DLBLAS_ROW void load_columns(Columns& columns, const Access& at) {
    const bool rotates = Base::rotates(at);  // else zeros, which nothing reads: g++ 12 warns
    columns.cos = rotates ? at.load(kTable) : at.zeros(kTable);
    columns.sin = rotates ? at.load(kTable, at.option(kPairs)) : at.zeros(kTable);
  }

  DLBLAS_ROW void finalize_group(Stage<0>, Kept& kept, float sum, const Access& at) {
    kept.factor = Base::factor_of(static_cast<typename Base::Total>(sum), at.call);
  }

  /// The weight is read here, since q's and k's differ, while all heads share the Columns.
  template <typename Stats>
  DLBLAS_ROW void store(const Kept& kept, const Columns& columns, const Stats&, const Access& at) {
    Target::part([&]() DLBLAS_ROW_LAMBDA { store_head(kept, columns, at); });
  }
  DLBLAS_ROW void store_head(const Kept& kept, const Columns& columns, const Access& at) {
    RowWords<Target, Base::kWeight> weight_low, weight_high;
    Base::load_two(Base::kWeight, weight_low, weight_high, at);
    const Values low = Base::normed(kept.low, kept.factor, weight_low, at);
    const Values high = Base::normed(kept.high, kept.factor, weight_high, at);
    Values out_low = low, out_high = high;
    if (Base::rotates(at)) {
      const auto &cos = values(columns.cos), &sin = values(columns.sin);
      out_low = low * cos - high * sin, out_high = high * cos + low * sin;
    }
    Base::store_two(Base::kOut, out_low, out_high, at);
    if (!at.option(kCaches) || !at.there(kCache)) return;
    if (at.option(kCaches) == kScaled) {
      const float scale = at.call.f[kCacheScale];
      out_low = quotient(out_low, scale), out_high = quotient(out_high, scale);
    }
    Base::store_two(kCache, out_low, out_high, at);
  }
};

}  // namespace dlblas::rope
