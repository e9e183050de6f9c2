// softmax of rows: y = e^(x − max) / Σ e^(x − max), in f32, one rounding.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "ops/common/softmax_row.hpp"

namespace dlblas::norm {

template <typename Target>
struct Softmax : SoftmaxRow<Target, SoftmaxFactor, true> {
  using Base = SoftmaxRow<Target, SoftmaxFactor, true>;
  using typename Base::Access, typename Base::Kept, typename Base::Stats, typename Base::Values;
  static constexpr Operand<1> kY{};

  DLBLAS_ROW void store(const Kept& kept, const RowProgram::Columns&, const Stats& stats,
                        const Access& at) {
    const Values factor(stats.finished);
    if constexpr (Base::kRemembers)
      at.store(kY, Base::Once::power_of(kept) * factor);
    else
      at.store(kY, Base::power(kept, stats, at) * factor);
  }
};

}  // namespace dlblas::norm
