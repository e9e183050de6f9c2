// softmax's gradient on rows: dx = y·(dy − Σ dy·y), in f32, one rounding.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "ops/norm/softmax_gradient.hpp"

namespace dlblas::norm {

template <typename Target>
struct SoftmaxBackward : SoftmaxGradient<Target> {
  using Base = SoftmaxGradient<Target>;
  using typename Base::Access, typename Base::Columns, typename Base::Kept, typename Base::Stats,
      typename Base::Sum, typename Base::Values;

  DLBLAS_ROW void accumulate(Stage<0>, Sum& sum, const Kept& kept, const Columns&, const Stats&,
                             const Access&) {
    sum.add_product(values(kept.dy), values(kept.y));
  }
  DLBLAS_ROW void store(const Kept& kept, const Columns&, const Stats& stats, const Access& at) {
    const RowUnpack& unpack = at.unpack(Stage<1>{});
    at.store(Base::kDx, values(kept.y, unpack) * (values(kept.dy, unpack) - Values(stats.sum)));
  }
};

}  // namespace dlblas::norm
