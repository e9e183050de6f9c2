// scale_rows: y = x · scale of the row · (weight + weight_offset), each product computed in f32,
// one rounding. With cast_before_weight, the value is rounded before it is multiplied by the
// weight, too. Compiled by NVRTC and, per instruction set, by the build; see
// device/row/program.hpp.
#pragma once

#include "device/row/program.hpp"

namespace dlblas::norm {

template <typename Target>
struct ScaleRows : RowProgram {
  static constexpr Operand<0> kX{};
  static constexpr Operand<1> kScale{};
  static constexpr Operand<2> kWeight{};
  static constexpr Operand<3> kY{};
  enum Options : int { kCastBeforeWeight, kHasWeight, kHasOffset };
  static constexpr bool kHasColumns = true;
  using Access = typename Target::Access;
  using Values = typename Target::Values;

  struct Loaded {
    RowWords<Target, kX> x;
  };
  using Kept = Loaded;
  struct Columns {
    RowWords<Target, kWeight> weight;
  };

  DLBLAS_ROW void load_columns(Columns& columns, const Access& at) {
    columns.weight = at.option(kHasWeight) ? at.load_column(kWeight) : at.zeros(kWeight);
  }
  DLBLAS_ROW void load(Loaded& in, const Access& at) { in.x = at.load(kX); }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept = in; }

  DLBLAS_ROW void store(const Kept& kept, const Columns& columns, const Stats&, const Access& at) {
    Values y = values(kept.x) * Values(at.load_value(kScale));
    if (at.option(kCastBeforeWeight)) y = at.round(kY, y);
    if (at.option(kHasWeight)) {
      // Without an offset nothing is added: −0 + 0 is not −0.
      const Values weight = values(columns.weight);
      y = y * (at.option(kHasOffset) ? weight + Values(at.call.f[0]) : weight);
    }
    at.store(kY, y);
  }
};

}  // namespace dlblas::norm
