// quantize_static of rows: q = x / scale, one scale for all, rounded to nearest even, saturated.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "device/row/program.hpp"

namespace dlblas::quant {

template <typename Target>
struct QuantizeStatic : RowProgram {
  static constexpr Operand<0> kX{};
  static constexpr Operand<1> kQ{};
  static constexpr Operand<2> kScale{};
  static constexpr bool kByteResults = true;
  using Access = typename Target::Access;
  using Values = typename Target::Values;

  struct Loaded {
    RowWords<Target, kX> x;
  };
  using Kept = Loaded;

  DLBLAS_ROW void load(Loaded& in, const Access& at) { in.x = at.load(kX); }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept = in; }
  // A quotient, because the reciprocal of a denormal scale would be infinite.
  DLBLAS_ROW void store(const Kept& kept, const Columns&, const Stats&, const Access& at) {
    at.store(kQ, quotient(values(kept.x), at.load_scalar(kScale, 1.0f)));
  }
};

}  // namespace dlblas::quant
