// layer_norm of rows: y = (x − mean) · rsqrt(var + eps) · weight + bias, in f32, one rounding.
// The variance comes from the differences to the mean, never from E[x²] − E[x]². Their sum corrects
// the mean: rows at 1e4 ± 1 are as accurate as others. They are scaled by a power of 2 (kScale)
// before they are squared, so that rows around 1e25 have a finite variance. Variant 1: each block
// of a cluster takes differences to the mean of its own columns, and the blocks synchronise only
// once.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "device/row/program.hpp"

namespace dlblas::norm {

template <typename Target>
struct LayerNorm : RowProgram {
  static constexpr Operand<0> kX{};
  static constexpr Operand<1> kWeight{};
  static constexpr Operand<2> kBias{};
  static constexpr Operand<3> kY{};
  enum Scalars { kScaledEps, kInverseWidth, kScale, kUnscale };
  enum Doubles { kInverseWidth64 };
  enum Options { kHasWeight, kHasBias };
  static constexpr int kStages = 2;
  static constexpr int kScopes[] = {kRowScope, kRowScope};
  static constexpr bool kHasColumns = true, kBlocksApart = Target::kVariant == 1;
  using Access = typename Target::Access;
  using Values = typename Target::Values;
  using Sum = typename Target::Sum;
  using Sums = typename Target::Sums;
  using Math = typename Target::Math;

  struct Loaded {
    RowWords<Target, kX> x;
  };
  using Kept = Loaded;
  struct Columns {
    RowWords<Target, kWeight> weight;
    RowWords<Target, kBias> bias;
  };
  struct Stats {
    float mean, factor, shift;  // y = (x − mean) · factor + shift
  };

  DLBLAS_ROW void load_columns(Columns& columns, const Access& at) {
    // Zeros if absent; nothing reads them, but g++ 12 warns otherwise.
    columns.weight = at.option(kHasWeight) ? at.load_column(kWeight) : at.zeros(kWeight);
    columns.bias = at.option(kHasBias) ? at.load_column(kBias) : at.zeros(kBias);
  }
  DLBLAS_ROW void load(Loaded& in, const Access& at) { in.x = at.load(kX); }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept = in; }

  DLBLAS_ROW float mean_of(float sum, const RowCall& call) { return sum * call.f[kInverseWidth]; }
  DLBLAS_ROW double mean_of(double sum, const RowCall& call) {
    return sum * call.d[kInverseWidth64];
  }

  /// x − mean, scaled.
  DLBLAS_ROW Values difference(const Values& x, const Stats& stats, const RowCall& call) {
    const float scale = call.f[kScale];
    return fma(x, Values(scale), Values(-stats.mean * scale));
  }
  DLBLAS_ROW Values normed(const Values& x, const Stats& stats) {
    return fma(x - Values(stats.mean), Values(stats.factor), Values(stats.shift));
  }

  DLBLAS_ROW Sum partial(Stage<0>) { return {}; }
  DLBLAS_ROW void accumulate(Stage<0>, Sum& sum, const Kept& kept, const Columns&, const Stats&,
                             const Access&) {
    sum.add(values(kept.x));
  }
  DLBLAS_ROW void finalize(Stage<0>, Stats& stats, typename Target::Total sum,
                           const RowCall& call) {
    stats.mean = static_cast<float>(mean_of(sum, call));
  }

  DLBLAS_ROW void finalize_block(Stage<0>, Stats& stats, float sum, int columns, const RowCall&) {
    stats.mean = columns > 0 ? sum * Math::reciprocal(static_cast<float>(columns)) : 0;
  }

  DLBLAS_ROW Sums partial(Stage<1>) { return {}; }
  DLBLAS_ROW void accumulate(Stage<1>, Sums& sums, const Kept& kept, const Columns&,
                             const Stats& stats, const Access& at) {
    const Values d = difference(values(kept.x, at.unpack(Stage<1>{})), stats, at.call);
    sums.add(d, d);
  }
  template <typename Total>
  DLBLAS_ROW void finalize(Stage<1>, Stats& stats, const Total& total, const RowCall& call) {
    const auto correction = mean_of(total.sum, call);
    const auto variance = mean_of(total.products, call) - correction * correction;
    stats.factor = Math::rsqrt((variance < 0 ? 0 : variance) + call.f[kScaledEps]) * call.f[kScale];
    stats.shift = static_cast<float>(-correction) * call.f[kUnscale] * stats.factor;
  }

  template <typename Total>
  DLBLAS_ROW RowMoments moments(const Stats& stats, const Total& total, int columns,
                                const RowCall& call) {
    if (columns <= 0) return {0, 0};
    const float correction = total.sum * Math::reciprocal(static_cast<float>(columns));
    const double unscale = call.f[kUnscale];
    const float squares = total.products - total.sum * correction;
    return {stats.mean + correction * unscale, squares * unscale * unscale};
  }
  DLBLAS_ROW void finalize(Stage<1>, Stats& stats, const RowMoments& row, const RowCall& call) {
    const double scale = call.f[kScale];
    const auto variance = static_cast<float>(row.squares * call.d[kInverseWidth64] * scale * scale);
    stats.mean = static_cast<float>(row.mean);
    stats.factor = Math::rsqrt((variance < 0 ? 0 : variance) + call.f[kScaledEps]) * call.f[kScale];
    stats.shift = static_cast<float>(stats.mean - row.mean) * stats.factor;
  }

  DLBLAS_ROW void store(const Kept& kept, const Columns& columns, const Stats& stats,
                        const Access& at) {
    Values y = normed(values(kept.x, at.unpack(Stage<2>{})), stats);
    if (at.option(kHasWeight) && at.option(kHasBias))
      y = fma(y, values(columns.weight), values(columns.bias));
    else if (at.option(kHasWeight))
      y = y * values(columns.weight);
    else if (at.option(kHasBias))
      y = y + values(columns.bias);
    at.store(kY, y);
  }
};

}  // namespace dlblas::norm
