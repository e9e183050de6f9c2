// rms_norm of rows with 8-bit results and a given scale: y as in rms_norm, in f32; q = y / scale
// rounded to nearest even, saturated.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "ops/norm/rms_norm_quant.hpp"

namespace dlblas::norm {

template <typename Target>
struct RmsNormQuantStatic : RmsNormCodes<Target> {
  using Base = RmsNormCodes<Target>;
  using Base::kQ, Base::kScale, Base::normed;
  using typename Base::Access, typename Base::Columns, typename Base::Values;
  static constexpr int kStages = 1;
  static constexpr int kScopes[] = {kRowScope};
  static constexpr bool kZeroNeutral = true;

  struct Kept {
    RowWords<Target, Base::kX> x;
  };
  struct Stats {
    float rstd;
  };

  // A quotient, because the reciprocal of a denormal scale would be infinite.
  DLBLAS_ROW void store(const Kept& kept, const Columns& columns, const Stats& stats,
                        const Access& at) {
    const Values y = normed(kept, columns, stats.rstd, at);
    at.store(kQ, near_quotient(y, at.load_scalar(kScale, 1.0f)));
  }
};

}  // namespace dlblas::norm
