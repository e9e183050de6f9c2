// A row program of a sum: Base applied to h = round(x + residual), which is residual_out. Base has
// kOperands operands, x first, and its Kept has a member x. Read next:
// add_layer_norm/add_layer_norm_program.hpp.
#pragma once

#include "device/row/program.hpp"

namespace dlblas::norm {

template <typename Target, typename Base, int kOperands = 4>
struct OfSum : Base {
  using Base::kX;
  static constexpr Operand<kOperands> kResidual{};
  static constexpr Operand<kOperands + 1> kResidualOut{};
  static constexpr uint32_t kStoredByKeep = 1u << kResidualOut.index;
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
    kept.x = at.add_rounded(kResidualOut, in.x, in.residual);
    at.store_words(kResidualOut, kept.x);
  }
  DLBLAS_ROW void reload(Kept& kept, const Access& at) { kept.x = at.load(kResidualOut); }
};

}  // namespace dlblas::norm
