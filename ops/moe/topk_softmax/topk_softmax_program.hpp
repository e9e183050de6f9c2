// topk_softmax of rows: the topk largest of softmax(logits), in order, with their columns. Columns
// are taken one by one, the largest logit first; weights are e^(x − largest). If they are not
// renormalised, one reduction gives Σ e^(x − max) of the row. Compiled by NVRTC and, per
// instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "ops/moe/topk_rows.hpp"

namespace dlblas::moe {

template <typename Target>
struct TopkSoftmax : TopkRows<Target> {
  using Base = TopkRows<Target>;
  static constexpr int kStages = 1;
  static constexpr int kScopes[] = {kRowScope};
  static constexpr bool kOptionalStages = true;
  using MaxSum = typename Target::MaxSum;
  using Math = typename Target::Math;

  struct Stats {
    float factor;
  };

  DLBLAS_ROW constexpr bool needs(Stage<0>, const int32_t* options) {
    return !options[Base::kRenormalizes];
  }
  DLBLAS_ROW MaxSum partial(Stage<0>) { return {}; }
  DLBLAS_ROW void accumulate(Stage<0>, MaxSum& part, const typename Base::Kept& kept,
                             const typename Base::Columns&, const Stats&,
                             const typename Base::Access&) {
    part.add(values(kept.x));
  }
  template <typename Total>
  DLBLAS_ROW void finalize(Stage<0>, Stats& stats, const Total& total, const RowCall&) {
    stats = {Math::reciprocal(total.sum)};
  }

  template <typename Picks, typename Row>
  DLBLAS_ROW void select(Picks& picks, const Stats& stats, const Row& row) {
    Base::choose(picks, row, stats.factor,
                 [](float logit, float largest) { return Math::exp(logit - largest); });
  }
};

}  // namespace dlblas::moe
