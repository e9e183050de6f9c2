// topk_sigmoid of rows: the topk largest of sigmoid(logits), in order, with their columns. To
// renormalise, weights are divided by the largest one's e^x if that is below 1: σ(x)·e^-s with s =
// min(largest, 0), so that their sum cannot underflow. Compiled by NVRTC and, per instruction set,
// by the build; see device/row/program.hpp.
#pragma once

#include "ops/moe/topk_rows.hpp"

namespace dlblas::moe {

template <typename Target>
struct TopkSigmoid : TopkRows<Target> {
  using Base = TopkRows<Target>;
  using Math = typename Target::Math;

  /// σ(x)·e^-shift = e^(min(x, 0) − shift) / (1 + e^-|x|).
  DLBLAS_ROW float sigmoid(float x, float shift) {
    const float size = x < 0 ? -x : x;
    return Math::exp(Math::min(x, 0.0f) - shift) * Math::reciprocal(1.0f + Math::exp(-size));
  }
  template <typename Picks, typename Row>
  DLBLAS_ROW void select(Picks& picks, const typename Base::Stats&, const Row& row) {
    const bool shifts = row.call.n[Base::kRenormalize] != 0;
    Base::choose(picks, row, 1.0f, [&](float logit, float largest) {
      return sigmoid(logit, shifts ? Math::min(largest, 0.0f) : 0.0f);
    });
  }
};

}  // namespace dlblas::moe
