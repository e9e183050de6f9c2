// dequantize_group of rows: y = q · scale, one scale per group of columns, rounded once. Compiled
// by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "device/row/program.hpp"

namespace dlblas::quant {

template <typename Target>
struct DequantizeGroup : RowProgram {
  static constexpr Operand<0> kQ{};
  static constexpr Operand<1> kScale{};
  static constexpr Operand<2> kY{};
  static constexpr bool kByteRows = true;
  using Access = typename Target::Access;

  struct Loaded {
    RowWords<Target, kQ> q;
    typename Target::Values scale;
  };
  using Kept = Loaded;

  DLBLAS_ROW void load(Loaded& in, const Access& at) {
    in.q = at.load(kQ);
    in.scale = at.load_group(kScale);
  }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept = in; }
  DLBLAS_ROW void store(const Kept& kept, const Columns&, const Stats&, const Access& at) {
    at.store(kY, values(kept.q) * kept.scale);
  }
};

}  // namespace dlblas::quant
