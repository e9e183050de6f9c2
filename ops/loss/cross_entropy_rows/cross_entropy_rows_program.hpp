// cross_entropy_rows: a row's loss and log Σ e^x, in one read. One reduction gives the maximum and
// the sum of powers; with label smoothing, a second one over the kept elements gives Σ w·x.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "ops/loss/cross_entropy.hpp"

namespace dlblas::loss {

template <typename Target>
struct CrossEntropyRows : RowProgram {
  static constexpr Operand<0> kX{};
  static constexpr Operand<1> kWeight{};
  static constexpr Operand<2> kWeightSum{};
  static constexpr Operand<3> kTarget{};
  static constexpr Operand<4> kLoss{};
  static constexpr Operand<5> kLse{};
  static constexpr int kStages = 2;
  static constexpr int kScopes[] = {kRowScope, kRowScope};
  static constexpr bool kOptionalStages = true, kHasRowResults = true, kOnlyRowResults = true;
  static constexpr bool kHasColumns = true, kSeldomF16 = true;
  static constexpr int kColumnsStage = 1;
  using Access = typename Target::Access;
  using Values = typename Target::Values;
  using Math = typename Target::Math;

  struct Loaded {
    RowWords<Target, kX> x;
  };
  using Kept = Loaded;
  struct Columns {
    RowWords<Target, kWeight> weight;
  };
  struct Stats {
    float max, log, smooth;  // log Σ e^(x − max); Σ w·x
  };

  DLBLAS_ROW constexpr bool needs(Stage<0>, const int32_t*) { return true; }
  DLBLAS_ROW constexpr bool needs(Stage<1>, const int32_t* options) { return options[kSmooths]; }

  DLBLAS_ROW void load(Loaded& in, const Access& at) { in.x = at.load(kX); }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept = in; }
  DLBLAS_ROW void load_columns(Columns& columns, const Access& at) {
    columns.weight = load_weights(at, kWeight);
  }

  DLBLAS_ROW typename Target::MaxSum partial(Stage<0>) { return {}; }
  DLBLAS_ROW void accumulate(Stage<0>, typename Target::MaxSum& part, const Kept& kept,
                             const Columns&, const Stats&, const Access& at) {
    part.add(capped(values(kept.x), at));
  }
  template <typename Total>
  DLBLAS_ROW void finalize(Stage<0>, Stats& stats, const Total& total, const RowCall&) {
    stats = {total.max, Math::log(static_cast<float>(total.sum)), 0};
  }

  DLBLAS_ROW typename Target::Sum partial(Stage<1>) { return {}; }
  DLBLAS_ROW void accumulate(Stage<1>, typename Target::Sum& sum, const Kept& kept,
                             const Columns& columns, const Stats&, const Access& at) {
    const Values x = capped(values(kept.x, at.unpack(Stage<1>{})), at);
    if (at.option(kWeighted))
      sum.add_product(x, values(columns.weight));
    else
      sum.add(x);
  }
  DLBLAS_ROW void finalize(Stage<1>, Stats& stats, typename Target::Total sum, const RowCall&) {
    stats.smooth = static_cast<float>(sum);
  }

  template <typename Row>
  DLBLAS_ROW void store_row(const Stats& stats, const Row& row) {
    const RowCall& call = row.call;
    const float lse = stats.max + stats.log;
    const int64_t target = row.number(0);
    float loss = target == call.n[0] ? 0 : weight_of(row, kWeight, target);
    if (target != call.n[0] && is_class(target, call)) {
      float x = row.load_element(kX, target);
      if (row.option(kCaps)) x = Math::tanh(x * call.f[kInverseCap]) * call.f[kCap];
      loss = call.f[kKept] * loss * ((stats.max - x) + stats.log);
      if (row.option(kSmooths))
        loss += call.f[kShare] * (load_weight_sum(row, kWeightSum) * lse - stats.smooth);
    }
    row.store_value(kLoss, loss);
    row.store_value(kLse, lse);
  }
};

}  // namespace dlblas::loss
