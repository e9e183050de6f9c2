// Shared by the programs of rms_norm with 8-bit results: the row's sum of squares, and its
// normalised values in f32. Squares are scaled by a power of 2 that eps allows (layer_norm_scale),
// so rows around 2^80 do not overflow. Read next:
// rms_norm_quant_token/rms_norm_quant_token_program.hpp, ops/common/quant_scale.hpp.
#pragma once

#include "device/row/program.hpp"
#include "ops/common/quant_scale.hpp"
#include "ops/norm/of_sum.hpp"

namespace dlblas::norm {

/// y, if stage 1 leaves in Kept what store() needs.
template <typename Values, bool kKeepsNormed>
struct KeptNormed {
  Values y;
};
template <typename Values>
struct KeptNormed<Values, false> {};

template <typename Target>
struct RmsNormCodes : RowProgram {
  static constexpr Operand<0> kX{};
  static constexpr Operand<1> kWeight{};
  static constexpr Operand<2> kQ{};
  static constexpr Operand<3> kScale{};
  /// RowCall::f and d: the scalars of fill_layer_norm, then two more.
  enum Scalars { kScaledEps, kInverseWidth, kSquareScale, kUnscale, kWeightOffset, kLargest };
  enum Doubles { kInverseWidth64 };
  enum Options { kHasOffset };
  static constexpr bool kHasColumns = true, kByteResults = true, kIntegerResults = false;
  /// A CPU normalises twice: less code, and its buffer need not hold y as well.
  static constexpr bool kKeepsNormed = Target::kInRegisters;
  using Access = typename Target::Access;
  using Values = typename Target::Values;
  using Sum = typename Target::Sum;
  using Math = typename Target::Math;

  struct Loaded {
    RowWords<Target, kX> x;
  };
  struct Columns {
    RowWords<Target, kWeight> weight;
  };

  DLBLAS_ROW void load_columns(Columns& columns, const Access& at) {
    columns.weight = at.load_column(kWeight);
  }
  DLBLAS_ROW void load(Loaded& in, const Access& at) { in.x = at.load(kX); }
  template <typename Kept>
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) {
    kept.x = in.x;
  }

  DLBLAS_ROW Sum partial(Stage<0>) { return {}; }
  template <typename Kept, typename Stats>
  DLBLAS_ROW void accumulate(Stage<0>, Sum& sum, const Kept& kept, const Columns&, const Stats&,
                             const Access& at) {
    const Values h = values(kept.x) * Values(at.call.f[kSquareScale]);
    sum.add_product(h, h);
  }
  DLBLAS_ROW float mean_of(float sum, const RowCall& call) { return sum * call.f[kInverseWidth]; }
  DLBLAS_ROW double mean_of(double sum, const RowCall& call) {
    return sum * call.d[kInverseWidth64];
  }
  template <typename Stats>
  DLBLAS_ROW void finalize(Stage<0>, Stats& stats, typename Target::Total sum,
                           const RowCall& call) {
    stats.rstd = Math::rsqrt(mean_of(sum, call) + call.f[kScaledEps]) * call.f[kSquareScale];
  }

  /// If options are constants, an absent offset costs nothing.
  DLBLAS_ROW Values gain(const Columns& columns, const Access& at) {
    const Values weight = values(columns.weight);
    if constexpr (kOptionsAreConstants)
      if (!at.option(kHasOffset)) return weight;
    return weight + Values(at.call.f[kWeightOffset]);
  }
  /// The values to quantise, never rounded to x's type. The floats of stage 0 may stay in registers
  /// until here: they and y are never live at the same time.
  template <typename Kept>
  DLBLAS_ROW Values normed(const Kept& kept, const Columns& columns, float rstd, const Access& at) {
    return values(kept.x) * Values(rstd) * gain(columns, at);
  }
};

}  // namespace dlblas::norm
