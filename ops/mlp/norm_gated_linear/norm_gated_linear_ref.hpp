// The oracle of norm_gated_linear: x̂ = rms_norm(x, rms_w, eps), y = act(x̂ · Wgᵀ) ⊙ (x̂ · Wuᵀ), in
// f64. For the allowed error see ops/mlp/norm_ref.hpp and gate_ref.hpp. Read next:
// norm_gated_linear.cpp.
#pragma once

#include "ops/mlp/gate_ref.hpp"
#include "ops/mlp/norm_ref.hpp"

namespace dlblas::mlp {

enum NormGatedTensor : int {
  kNormGatedX,
  kNormGatedGain,
  kNormGatedGate,
  kNormGatedUp,
  kNormGatedY
};
enum NormGatedLetter : int { kNormGatedT, kNormGatedK, kNormGatedF };
enum NormGatedScalar : int { kNormGatedEps, kNormGatedActivation };

template <typename Row>
void norm_gated_linear_row(Row& row) {
  const NormedRow<Row> x(row, kNormGatedX, kNormGatedGain, row.size(kNormGatedK),
                         row.scalar(kNormGatedEps));
  const auto gate = static_cast<Gate>(row.integer(kNormGatedActivation));
  row.each(row.size(kNormGatedF), [&](auto c) {
    store_gated(row, c, row.size(kNormGatedK), gate, x.times(kNormGatedGate, c),
                x.times(kNormGatedUp, c));
  });
}

}  // namespace dlblas::mlp
