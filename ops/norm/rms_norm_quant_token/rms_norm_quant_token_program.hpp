// rms_norm of rows with 8-bit results, one scale per row: y as in rms_norm, in f32; scale = max |y|
// / 448, q = y / scale rounded to nearest even, saturated.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "ops/norm/rms_norm_quant.hpp"

namespace dlblas::norm {

template <typename Target>
struct RmsNormQuantToken : RmsNormCodes<Target> {
  using Base = RmsNormCodes<Target>;
  using Base::kQ, Base::kScale, Base::kLargest;
  using Base::partial, Base::accumulate, Base::finalize, Base::normed;
  using typename Base::Access, typename Base::Columns, typename Base::Math, typename Base::Values;
  using Max = typename Target::Max;
  static constexpr int kStages = 2, kColumnsStage = 1;
  static constexpr int kScopes[] = {kRowScope, kRowScope};
  static constexpr bool kHasRowResults = true;

  struct Kept : KeptNormed<Values, Base::kKeepsNormed> {
    RowWords<Target, Base::kX> x;
  };
  struct Stats {
    float rstd, scale, factor;
  };

  DLBLAS_ROW Max partial(Stage<1>) { return {}; }
  DLBLAS_ROW void accumulate(Stage<1>, Max& max, Kept& kept, const Columns& columns,
                             const Stats& stats, const Access& at) {
    const Values y = normed(kept, columns, stats.rstd, at);
    if constexpr (Base::kKeepsNormed) kept.y = y;
    max.add_abs(y);
  }
  DLBLAS_ROW void finalize(Stage<1>, Stats& stats, float amax, const RowCall& call) {
    stats.scale = quant::QuantScale<Math>::of(amax, call.f[kLargest]);
    stats.factor = Math::reciprocal(stats.scale);
  }

  DLBLAS_ROW void store_row(const Stats& stats, const typename Target::Row& row) {
    row.store_value(kScale, stats.scale);
  }
  DLBLAS_ROW void store(const Kept& kept, const Columns& columns, const Stats& stats,
                        const Access& at) {
    if constexpr (Base::kKeepsNormed)
      at.store(kQ, kept.y * Values(stats.factor));
    else
      at.store(kQ, normed(kept, columns, stats.rstd, at) * Values(stats.factor));
  }
};

}  // namespace dlblas::norm
