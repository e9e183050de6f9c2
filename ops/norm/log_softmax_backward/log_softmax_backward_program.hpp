// log_softmax's gradient on rows: dx = dy − e^y·Σ dy, in f32, one rounding.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "ops/norm/softmax_gradient.hpp"

namespace dlblas::norm {

template <typename Target>
struct LogSoftmaxBackward : SoftmaxGradient<Target> {
  using Base = SoftmaxGradient<Target>;
  using typename Base::Access, typename Base::Columns, typename Base::Kept, typename Base::Stats,
      typename Base::Sum, typename Base::Values;

  DLBLAS_ROW void accumulate(Stage<0>, Sum& sum, const Kept& kept, const Columns&, const Stats&,
                             const Access&) {
    sum.add(values(kept.dy));
  }
  DLBLAS_ROW void store(const Kept& kept, const Columns&, const Stats& stats, const Access& at) {
    const RowUnpack& unpack = at.unpack(Stage<1>{});
    at.store(Base::kDx,
             fma(exp(values(kept.y, unpack)), Values(-stats.sum), values(kept.dy, unpack)));
  }
};

}  // namespace dlblas::norm
