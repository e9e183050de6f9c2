// Shared by the gradients of softmax and log_softmax: rows of dy and y, which are kept, and one sum
// over them. A program defines what it sums (accumulate) and what it stores (store). Read next:
// softmax_backward/softmax_backward_program.hpp.
#pragma once

#include "device/row/program.hpp"

namespace dlblas::norm {

template <typename Target>
struct SoftmaxGradient : RowProgram {
  static constexpr Operand<0> kDy{};
  static constexpr Operand<1> kY{};
  static constexpr Operand<2> kDx{};
  static constexpr int kStages = 1;
  static constexpr int kScopes[] = {kRowScope};
  static constexpr bool kZeroNeutral = true;
  using Access = typename Target::Access;
  using Values = typename Target::Values;
  using Sum = typename Target::Sum;

  struct Loaded {
    RowWords<Target, kDy> dy;
    RowWords<Target, kY> y;
  };
  using Kept = Loaded;
  struct Stats {
    float sum;
  };

  DLBLAS_ROW void load(Loaded& in, const Access& at) {
    in.dy = at.load(kDy);
    in.y = at.load(kY);
  }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept = in; }

  DLBLAS_ROW Sum partial(Stage<0>) { return {}; }
  DLBLAS_ROW void finalize(Stage<0>, Stats& stats, typename Target::Total sum, const RowCall&) {
    stats.sum = static_cast<float>(sum);
  }
};

}  // namespace dlblas::norm
