// Shared by the programs of routers: the topk largest logits of a row, in RowRank's order, which
// rounds nothing, and their weights, scaled once their sum is known by the thread that holds or has
// stored them. Read next: ops/moe/topk_softmax/topk_softmax_program.hpp, device/row/program.hpp.
#pragma once

#include "device/row/program.hpp"

namespace dlblas::moe {

template <typename Target>
struct TopkRows : RowProgram {
  static constexpr Operand<0> kLogits{};
  static constexpr Operand<1> kWeights{};
  static constexpr Operand<2> kIds{};
  enum Count : int { kTopk, kRenormalize };  // RowCall::n
  static constexpr int kRenormalizes = 0;    // RowCall::options
  static constexpr bool kSelects = true, kOnlyRowResults = true;
  static constexpr int kRankedOperand = 0;
  using Access = typename Target::Access;
  using Values = typename Target::Values;
  using Math = typename Target::Math;

  struct Loaded {
    RowWords<Target, kLogits> x;
  };
  using Kept = Loaded;

  DLBLAS_ROW void load(Loaded& in, const Access& at) { in.x = at.load(kLogits); }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept = in; }
  DLBLAS_ROW Values ranked(const Kept& kept) { return values(kept.x); }
  DLBLAS_ROW int64_t picks(const RowCall& call) { return call.n[kTopk]; }

  /// power(logit, the largest logit): a weight without its scale, which is `factor` or, to
  /// renormalise, 1 over the sum of the chosen.
  template <typename Picks, typename Row, typename Power>
  DLBLAS_ROW void choose(Picks& picks, const Row& row, float factor, const Power& power) {
    const auto count = static_cast<int32_t>(row.call.n[kTopk]);
    const bool held = picks.holds(count);
    constexpr int32_t kChain = 64;  // terms that are added in f32
    double before = 0;
    float chosen = 0, own = 0, largest = 0;
    for (int32_t r = 0; r < count; ++r) {
      const RowPicked one = picks.take();
      if (r == 0) largest = one.value;
      const float weight = power(one.value, largest);
      chosen += weight;
      if (r % kChain == kChain - 1) before += chosen, chosen = 0;
      if (!picks.writes(r)) continue;
      row.put(kIds, r, one.column), own = weight;
      if (!held) row.put(kWeights, r, weight);
    }
    if (row.call.n[kRenormalize]) factor = Math::reciprocal(static_cast<float>(before + chosen));
    for (int32_t r = picks.first(count); r < count; r += picks.step())
      row.put(kWeights, r, (held ? own : row.got(kWeights, r)) * factor);
  }
};

}  // namespace dlblas::moe
