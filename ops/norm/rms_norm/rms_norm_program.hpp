// rms_norm of rows: y = x · rsqrt(mean(x²) + eps) · (weight + weight_offset), squares summed in
// f32, one rounding. Rows whose mean leaves f32's range are summed again in f64. With
// cast_before_weight, the value is rounded before it is multiplied by the weight, too. AddRmsNorm
// derives from it and makes the row itself a sum. Compiled by NVRTC and, per instruction set, by
// the build; see device/row/program.hpp.
#pragma once

#include "device/row/program.hpp"

namespace dlblas::norm {

template <typename Target>
struct RmsNorm : RowProgram {
  static constexpr Operand<0> kX{};
  static constexpr Operand<1> kWeight{};
  static constexpr Operand<2> kY{};
  static constexpr int kCastBeforeWeight = 0, kHasWeight = 1;  // options
  enum Scalars : int { kEps, kInverseWidth, kWeightOffset };   // RowCall::f
  enum Doubles : int { kEps64, kInverseWidth64 };              // RowCall::d
  static constexpr int kStages = 1;
  static constexpr int kScopes[] = {kRowScope};
  static constexpr bool kHasColumns = true, kZeroNeutral = true;
  static constexpr bool kWideColumns = true;
  static constexpr int kSquaresOf = kX.index;
  using Access = typename Target::Access;
  using Values = typename Target::Values;
  using Math = typename Target::Math;
  using Scale = typename Target::template Scale<kX.index>;

  struct Loaded {
    RowWords<Target, kX> x;
  };
  struct Kept {
    RowWords<Target, kX> x;
  };
  struct Columns {
    RowWords<Target, kWeight> weight;
  };
  struct Stats {
    Scale scale;
  };

  DLBLAS_ROW void load_columns(Columns& columns, const Access& at) {
    // No weight: zeros, and an offset of 1. On CPUs there are zeros to load (norm_rows.cpp), so
    // that no access tests an option.
    if constexpr (kOptionsAreConstants) {
      columns.weight = at.option(kHasWeight) ? at.load_column(kWeight) : at.zeros(kWeight);
    } else {
      columns.weight = at.load_column(kWeight);
    }
  }
  DLBLAS_ROW void load(Loaded& in, const Access& at) { in.x = at.load(kX); }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept.x = in.x; }

  DLBLAS_ROW typename Target::Sum partial(Stage<0>) { return {}; }
  template <typename Part>
  DLBLAS_ROW void accumulate(Stage<0>, Part& part, const Kept& kept, const Columns&, const Stats&,
                             const Access&) {
    part.add_squares(kept.x);
  }

  DLBLAS_ROW float mean_of(float sum, const RowCall& call) {
    return Math::fma(sum, call.f[kInverseWidth], call.f[kEps]);
  }
  DLBLAS_ROW double mean_of(double sum, const RowCall& call) {
    return Math::quotient(sum, call.width, call.d[kInverseWidth64]) + call.d[kEps64];
  }
  /// False for NaN. A large eps pushes the mean out of f32's range, too.
  template <typename Total>
  DLBLAS_ROW bool lost(Stage<0>, Total sum, const RowCall& call) {
    const Total mean = mean_of(sum, call);
    return Math::overflows(sum) || mean < 0x1p-100f || mean > 0x1p126f;
  }
  DLBLAS_ROW void finalize(Stage<0>, Stats& stats, typename Target::Total sum,
                           const RowCall& call) {
    stats.scale = Scale::root(mean_of(sum, call));
  }
  DLBLAS_ROW void finalize_wide(Stage<0>, Stats& stats, double sum, const RowCall& call) {
    stats.scale = Scale::wide_root(mean_of(sum, call));
  }

  DLBLAS_ROW void store(const Kept& kept, const Columns& columns, const Stats& stats,
                        const Access& at) {
    Values y = scaled(kept.x, stats.scale);
    if (at.option(kCastBeforeWeight)) y = at.round(kY, y);
    at.store(kY, y * (values(columns.weight) + Values(at.call.f[kWeightOffset])));
  }
};

}  // namespace dlblas::norm
