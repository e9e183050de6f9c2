// topk_softmax of rows: the topk largest of softmax(logits), in order, with their columns.
// One reduction gives the maximum and Σ e^(x − max); then the row's columns are taken one by one in
// RowRank's order, which compares logits and so rounds nothing. Weights are e^(x − max), scaled
// once their sum is known, by the thread that holds or has put them. Compiled by NVRTC and, per
// instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "device/row/program.hpp"

namespace dlblas::moe {

template <typename Target>
struct TopkSoftmax : RowProgram {
  static constexpr Operand<0> kLogits{};
  static constexpr Operand<1> kWeights{};
  static constexpr Operand<2> kIds{};
  enum Count : int { kTopk, kRenormalize };  // RowCall::n
  static constexpr int kStages = 1;
  static constexpr int kScopes[] = {kRowScope};
  static constexpr bool kSelects = true, kOnlyRowResults = true;
  static constexpr int kRankedOperand = 0;
  using Access = typename Target::Access;
  using Values = typename Target::Values;
  using MaxSum = typename Target::MaxSum;
  using Math = typename Target::Math;

  struct Loaded {
    RowWords<Target, kLogits> x;
  };
  using Kept = Loaded;
  struct Stats {
    float max, factor;
  };

  DLBLAS_ROW void load(Loaded& in, const Access& at) { in.x = at.load(kLogits); }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept = in; }

  DLBLAS_ROW MaxSum partial(Stage<0>) { return {}; }
  DLBLAS_ROW void accumulate(Stage<0>, MaxSum& part, const Kept& kept, const Columns&, const Stats&,
                             const Access&) {
    part.add(values(kept.x));
  }
  template <typename Total>
  DLBLAS_ROW void finalize(Stage<0>, Stats& stats, const Total& total, const RowCall&) {
    stats = {total.max, Math::reciprocal(total.sum)};
  }

  DLBLAS_ROW Values ranked(const Kept& kept) { return values(kept.x); }
  DLBLAS_ROW int64_t picks(const RowCall& call) { return call.n[kTopk]; }
  template <typename Picks, typename Row>
  DLBLAS_ROW void select(Picks& picks, const Stats& stats, const Row& row) {
    const auto count = static_cast<int32_t>(row.call.n[kTopk]);
    const bool held = picks.holds(count);
    float chosen = 0, own = 0;
    for (int32_t r = 0; r < count; ++r) {
      const RowPicked one = picks.take();
      const float power = Math::exp(one.value - stats.max);
      chosen += power;
      if (!picks.writes(r)) continue;
      row.put(kIds, r, one.column), own = power;
      if (!held) row.put(kWeights, r, power);
    }
    const float factor = row.call.n[kRenormalize] ? Math::reciprocal(chosen) : stats.factor;
    for (int32_t r = 0; r < count; ++r)
      if (picks.writes(r)) row.put(kWeights, r, (held ? own : row.got(kWeights, r)) * factor);
  }
};

}  // namespace dlblas::moe
