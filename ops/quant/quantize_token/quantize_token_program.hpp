// quantize_token of rows: scale = max_K |x| / largest, q = x / scale rounded to nearest even,
// saturated. Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "device/row/program.hpp"
#include "ops/common/quant_powers.hpp"
#include "ops/common/quant_scale.hpp"

namespace dlblas::quant {

template <typename Target>
struct QuantizeToken : RowProgram {
  static constexpr Operand<0> kX{};
  static constexpr Operand<1> kQ{};
  static constexpr Operand<2> kScale{};
  enum Scalars { kLargest, kPowers };
  static constexpr int kStages = 1;
  static constexpr int kScopes[] = {kRowScope};
  static constexpr bool kByteResults = true;
  static constexpr bool kHasRowResults = true, kZeroNeutral = true;
  using Access = typename Target::Access;
  using Values = typename Target::Values;
  using Max = typename Target::Max;
  using Math = typename Target::Math;

  struct Loaded {
    RowWords<Target, kX> x;
  };
  using Kept = Loaded;
  struct Stats {
    float scale, factor;
  };

  DLBLAS_ROW void load(Loaded& in, const Access& at) { in.x = at.load(kX); }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept = in; }

  DLBLAS_ROW Max partial(Stage<0>) { return {}; }
  DLBLAS_ROW void accumulate(Stage<0>, Max& max, const Kept& kept, const Columns&, const Stats&,
                             const Access&) {
    max.add_abs(values(kept.x));
  }
  DLBLAS_ROW void finalize(Stage<0>, Stats& stats, float amax, const RowCall& call) {
    stats.scale = QuantPowers::of(QuantScale<Math>::of(amax, call.f[kLargest]), call.f[kPowers]);
    stats.factor = Math::reciprocal(stats.scale);
  }

  DLBLAS_ROW void store_row(const Stats& stats, const typename Target::Row& row) {
    row.store_value(kScale, stats.scale);
  }
  DLBLAS_ROW void store(const Kept& kept, const Columns&, const Stats& stats, const Access& at) {
    at.store(kQ, values(kept.x, at.unpack(Stage<1>{})) * Values(stats.factor));
  }
};

}  // namespace dlblas::quant
