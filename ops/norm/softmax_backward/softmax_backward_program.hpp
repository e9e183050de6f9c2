// softmax's gradient on rows: dx = y·(dy − Σ dy·y), in f32, one rounding.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "device/row/program.hpp"

namespace dlblas::norm {

template <typename Target>
struct SoftmaxBackward : RowProgram {
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
  DLBLAS_ROW void accumulate(Stage<0>, Sum& sum, const Kept& kept, const Columns&, const Stats&,
                             const Access&) {
    sum.add_product(values(kept.dy), values(kept.y));
  }
  DLBLAS_ROW void finalize(Stage<0>, Stats& stats, typename Target::Total sum, const RowCall&) {
    stats.sum = static_cast<float>(sum);
  }

  DLBLAS_ROW void store(const Kept& kept, const Columns&, const Stats& stats, const Access& at) {
    const RowUnpack& unpack = at.unpack(Stage<1>{});
    at.store(kDx, values(kept.y, unpack) * (values(kept.dy, unpack) - Values(stats.sum)));
  }
};

}  // namespace dlblas::norm
