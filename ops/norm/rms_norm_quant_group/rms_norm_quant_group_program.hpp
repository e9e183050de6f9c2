// rms_norm of rows with 8-bit results, one scale per group of columns: y as in rms_norm, in f32;
// scale = max |y| / 448 of each group, q = y / scale rounded to nearest even, saturated.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "ops/norm/rms_norm_quant.hpp"

namespace dlblas::norm {

template <typename Target>
struct RmsNormQuantGroup : RmsNormCodes<Target> {
  using Base = RmsNormCodes<Target>;
  using Base::kQ, Base::kScale, Base::kLargest;
  using Base::partial, Base::accumulate, Base::normed;
  using typename Base::Access, typename Base::Columns, typename Base::Math, typename Base::Values;
  using Max = typename Target::Max;
  static constexpr int kStages = 2, kColumnsStage = 1;
  static constexpr int kScopes[] = {kRowScope, kGroupScope};

  struct Kept : KeptNormed<Values, Base::kKeepsNormed> {
    RowWords<Target, Base::kX> x;
    float factor;
  };
  struct Stats {
    float rstd;
  };

  DLBLAS_ROW Max partial(Stage<1>) { return {}; }
  DLBLAS_ROW void accumulate(Stage<1>, Max& max, Kept& kept, const Columns& columns,
                             const Stats& stats, const Access& at) {
    const Values y = normed(kept, columns, stats.rstd, at);
    if constexpr (Base::kKeepsNormed) kept.y = y;
    max.add_abs(y);
  }
  DLBLAS_ROW void finalize_group(Stage<1>, Kept& kept, float amax, const Access& at) {
    const float scale = quant::QuantScale<Math>::of(amax, at.call.f[kLargest]);
    kept.factor = Math::reciprocal(scale);
    at.store_group(kScale, scale);
  }
  DLBLAS_ROW void store(const Kept& kept, const Columns& columns, const Stats& stats,
                        const Access& at) {
    if constexpr (Base::kKeepsNormed)
      at.store(kQ, kept.y * Values(kept.factor));
    else
      at.store(kQ, normed(kept, columns, stats.rstd, at) * Values(kept.factor));
  }
};

}  // namespace dlblas::norm
