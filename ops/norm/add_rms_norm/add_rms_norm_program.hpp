// add_rms_norm of rows: h = round(x + residual), which is residual_out, and y = rms_norm(h).
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
// Read next: ops/norm/rms_norm/rms_norm_program.hpp, which has what follows the sum.
#pragma once

#include "ops/norm/rms_norm/rms_norm_program.hpp"

namespace dlblas::norm {

template <typename Target>
struct AddRmsNorm : RmsNorm<Target> {
  using Base = RmsNorm<Target>;
  using Base::kX;
  static constexpr Operand<3> kResidual{};
  static constexpr Operand<4> kResidualOut{};
  static constexpr uint32_t kStoredByKeep = 1u << kResidualOut.index;
  static constexpr int kSquaresOf = kResidualOut.index;
  using typename Base::Access;
  using typename Base::Kept;

  struct Loaded {
    RowWords<Target, Base::kX> x;
    RowWords<Target, kResidual> residual;
  };

  DLBLAS_ROW void load(Loaded& in, const Access& at) {
    in.x = at.load(kX);
    in.residual = at.load(kResidual);
  }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access& at) {
    kept.h = at.add_rounded(kResidualOut, in.x, in.residual);
    at.store_words(kResidualOut, kept.h);
  }
  DLBLAS_ROW void reload(Kept& kept, const Access& at) { kept.h = at.load(kResidualOut); }
};

}  // namespace dlblas::norm
