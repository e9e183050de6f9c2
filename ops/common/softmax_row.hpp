// Shared by row programs that take a softmax: the row's maximum and Σ e^(x − max), in f32. The
// maximum is subtracted first, so no finite row overflows. Rows with NaN or +inf, and rows of −inf
// alone, are NaN, as in torch. Variant 0 finds the maximum, then the sum; variant 1 both in one
// reduction.
// Read next: ops/norm/softmax/softmax_program.hpp, ops/common/softmax_sum.hpp (the error).
#pragma once

#include "device/row/program.hpp"

namespace dlblas::norm {

/// An access that keeps its exponentials, in place of its elements if those are stored as values
/// too.
template <typename Words, typename Values>
struct SoftmaxOnce {
  Words x;
  Values power;
  template <typename Once>
  DLBLAS_ROW auto& power_of(Once& kept) {
    return kept.power;
  }
};
template <typename Values>
struct SoftmaxOnce<Values, Values> {
  Values x;
  template <typename Once>
  DLBLAS_ROW auto& power_of(Once& kept) {
    return kept.x;
  }
};

/// Stats keep `Finish::of<Math>(sum)`. kMayRemember: store() uses the exponentials that stage 1
/// left in Kept.
template <typename Target, typename Finish, bool kMayRemember>
struct SoftmaxRow : RowProgram {
  static constexpr Operand<0> kX{};
  static constexpr bool kOnline = Target::kVariant == 1;
  static constexpr int kStages = kOnline ? 1 : 2;
  static constexpr int kScopes[] = {kRowScope, kRowScope};
  using Access = typename Target::Access;
  using Values = typename Target::Values;
  using Max = typename Target::Max;
  using Sum = typename Target::Sum;
  using MaxSum = typename Target::MaxSum;
  using Math = typename Target::Math;

  struct Loaded {
    RowWords<Target, kX> x;
  };
  struct Again {
    RowWords<Target, kX> x;
  };
  using Once = SoftmaxOnce<RowWords<Target, kX>, Values>;
  static constexpr bool kRemembers = kMayRemember && Target::kKeeps && !kOnline;
  using Kept = typename RowPick<kRemembers, Once, Again>::Type;
  struct Stats {
    float max, finished;
  };

  DLBLAS_ROW void load(Loaded& in, const Access& at) { in.x = at.load(kX); }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept.x = in.x; }

  DLBLAS_ROW auto partial(Stage<0>) {
    if constexpr (kOnline)
      return MaxSum();
    else
      return Max();
  }
  template <typename Part>
  DLBLAS_ROW void accumulate(Stage<0>, Part& part, const Kept& kept, const Columns&, const Stats&,
                             const Access&) {
    if constexpr (kOnline)
      part.add(values(kept.x));
    else
      part.add(kept.x);
  }
  DLBLAS_ROW void finalize(Stage<0>, Stats& stats, float max, const RowCall&) { stats.max = max; }
  template <typename Total>
  DLBLAS_ROW void finalize(Stage<0>, Stats& stats, const Total& total, const RowCall&) {
    stats = {total.max, Finish::template of<Math>(total.sum)};
  }

  DLBLAS_ROW Values power(const Kept& kept, const Stats& stats, const Access& at) {
    const Values difference = values(kept.x, at.unpack(Stage<1>{})) - Values(stats.max);
    if constexpr (requires { Math::power(difference); })
      return Math::power(difference);
    else
      return exp(difference);
  }
  DLBLAS_ROW Sum partial(Stage<1>) { return {}; }
  DLBLAS_ROW void accumulate(Stage<1>, Sum& sum, Kept& kept, const Columns&, const Stats& stats,
                             const Access& at) {
    const Values e = power(kept, stats, at);
    if constexpr (kRemembers) Once::power_of(kept) = e;
    sum.add(e);
  }
  DLBLAS_ROW void finalize(Stage<1>, Stats& stats, typename Target::Total sum, const RowCall&) {
    stats.finished = Finish::template of<Math>(sum);
  }
};

/// What Stats keep of the sum: its reciprocal, or its logarithm.
struct SoftmaxFactor {
  template <typename Math, typename Total>
  DLBLAS_ROW float of(Total sum) {
    return Math::reciprocal(sum);
  }
};
struct SoftmaxLog {
  template <typename Math, typename Total>
  DLBLAS_ROW float of(Total sum) {
    return Math::log(static_cast<float>(sum));
  }
};

}  // namespace dlblas::norm
