// log_softmax of rows: y = (x − max) − log Σ e^(x − max), in f32, one rounding.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "ops/common/softmax_row.hpp"

namespace dlblas::norm {

template <typename Target>
struct LogSoftmax : SoftmaxRow<Target, SoftmaxLog, false> {
  using Base = SoftmaxRow<Target, SoftmaxLog, false>;
  using typename Base::Access, typename Base::Kept, typename Base::Stats, typename Base::Values;
  static constexpr Operand<1> kY{};
  /// Keeps the elements as values: a CPU then finds the maximum first, as for softmax. Maximum and
  /// sum in one reduction take twice as long, 5 times for rows of 128.
  static constexpr bool kRemembers = Target::kKeeps && !Base::kOnline;

  DLBLAS_ROW void store(const Kept& kept, const RowProgram::Columns&, const Stats& stats,
                        const Access& at) {
    const Values x = values(kept.x, at.unpack(Stage<Base::kStages>{}));
    at.store(kY, (x - Values(stats.max)) - Values(stats.finished));
  }
};

}  // namespace dlblas::norm
