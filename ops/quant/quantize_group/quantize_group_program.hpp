// quantize_group of rows: scale = max |x| / largest of each group of columns, q = x / scale rounded
// to nearest even, saturated. Compiled by NVRTC and, per instruction set, by the build; see
// device/row/program.hpp.
#pragma once

#include "device/row/program.hpp"
#include "ops/common/quant_powers.hpp"
#include "ops/common/quant_scale.hpp"

namespace dlblas::quant {

template <typename Target>
struct QuantizeGroup : RowProgram {
  static constexpr Operand<0> kX{};
  static constexpr Operand<1> kQ{};
  static constexpr Operand<2> kScale{};
  enum Scalars { kLargest, kPowers };
  static constexpr int kStages = 1;
  static constexpr int kScopes[] = {kGroupScope};
  static constexpr bool kByteResults = true;
  using Access = typename Target::Access;
  using Values = typename Target::Values;
  using Max = typename Target::Max;
  using Math = typename Target::Math;

  struct Loaded {
    RowWords<Target, kX> x;
  };
  struct Kept {
    RowWords<Target, kX> x;
    float factor;
  };

  DLBLAS_ROW void load(Loaded& in, const Access& at) { in.x = at.load(kX); }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept.x = in.x; }

  DLBLAS_ROW Max partial(Stage<0>) { return {}; }
  DLBLAS_ROW void accumulate(Stage<0>, Max& max, const Kept& kept, const Columns&, const Stats&,
                             const Access&) {
    max.add_abs(values(kept.x));
  }
  DLBLAS_ROW void finalize_group(Stage<0>, Kept& kept, float amax, const Access& at) {
    const float plain = QuantScale<Math>::of(amax, at.call.f[kLargest]);
    const float scale = QuantPowers::of(plain, at.call.f[kPowers]);
    kept.factor = Math::reciprocal(scale);
    at.store_group(kScale, scale);
  }
  DLBLAS_ROW void store(const Kept& kept, const Columns&, const Stats&, const Access& at) {
    at.store(kQ, values(kept.x, at.unpack(Stage<1>{})) * Values(kept.factor));
  }
};

}  // namespace dlblas::quant
