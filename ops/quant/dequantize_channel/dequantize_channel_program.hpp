// dequantize_channel of rows: y = q · scale, one scale per column, rounded once. Compiled by NVRTC
// and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "device/row/program.hpp"

namespace dlblas::quant {

template <typename Target>
struct DequantizeChannel : RowProgram {
  static constexpr Operand<0> kQ{};
  static constexpr Operand<1> kScale{};
  static constexpr Operand<2> kY{};
  static constexpr bool kByteRows = true, kHasColumns = true;
  using Access = typename Target::Access;

  struct Loaded {
    RowWords<Target, kQ> q;
  };
  using Kept = Loaded;
  struct Columns {
    RowWords<Target, kScale> scale;
  };

  DLBLAS_ROW void load_columns(Columns& columns, const Access& at) {
    columns.scale = at.load_column(kScale);
  }
  DLBLAS_ROW void load(Loaded& in, const Access& at) { in.q = at.load(kQ); }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept = in; }
  DLBLAS_ROW void store(const Kept& kept, const Columns& columns, const Stats&, const Access& at) {
    at.store(kY, values(kept.q) * values(columns.scale));
  }
};

}  // namespace dlblas::quant
