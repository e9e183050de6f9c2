// The gradient of group_norm_rows in the form that row_registers takes (device/row/registers.cuh),
// for GPUs only, where instruction count matters. In: GroupNormBackward as Base: operands,
// statistics. Read next: ops/norm/group_norm_backward/group_norm_backward_program.hpp.
#pragma once

#include "device/row/program.hpp"

namespace dlblas::norm {

/// n and h stay in f32, and an access's Σ h and Σ h·n are both the terms of dbias and dweight and,
/// times its one weight, those of the row's means.
template <typename Base, typename Target>
struct GroupNormGrouped : Base {
  using typename Base::Access, typename Base::Columns, typename Base::Forward, typename Base::Stats,
      typename Base::Sums, typename Base::Values;

  struct Kept : Base::Kept {
    Values n, h;
    float sum, product;  // Σ h and Σ h·n of the access
  };

  using Base::accumulate;
  DLBLAS_ROW void accumulate(Stage<2>, Sums& sums, Kept& kept, const Columns& columns,
                             const Stats& stats, const Access& at) {
    const auto made = Base::ready(kept, columns, stats, at, at.unpack(Stage<2>{}));
    kept.n = made.n, kept.h = made.h;
    kept.sum = kept.product = 0;
    for (int i = 0; i < Target::kElements; ++i) {
      kept.sum += kept.h.v[i];
      kept.product = fmaf(kept.h.v[i], kept.n.v[i], kept.product);
    }
    const float weight = columns.weight.v[0];
    sums.sum.add(Values1(kept.sum * weight));
    sums.products.add(Values1(kept.product * weight));
  }

  DLBLAS_ROW void store(const Kept& kept, const Columns& columns, const Stats& stats,
                        const Access& at) {
    const float scale = columns.weight.v[0] * stats.factor, offset = -stats.gradient * stats.factor;
    const Values pulled = fma(kept.n, Values(-stats.product * stats.factor), Values(offset));
    at.store(Base::kDx, fma(kept.h, Values(scale), pulled));
  }
  DLBLAS_ROW float group_term(Fold<0>, const Kept& kept, const Access& at) {
    return at.option(Forward::kHasWeight) ? kept.product : 0;
  }
  DLBLAS_ROW float group_term(Fold<1>, const Kept& kept, const Access& at) {
    return at.option(Forward::kHasBias) ? kept.sum : 0;
  }

 private:
  using Values1 = typename Target::template ValuesOf<1>;
};

}  // namespace dlblas::norm
