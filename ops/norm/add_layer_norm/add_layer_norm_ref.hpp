// The oracle of add_layer_norm: h = round(x + residual), residual_out = h, y = layer_norm(h).
// Everything after h is f64. Read next: ops/norm/layer_norm/layer_norm_ref.hpp, norm_ref.hpp.
#pragma once

#include "ops/norm/layer_norm/layer_norm_ref.hpp"
#include "ops/norm/norm_ref.hpp"

namespace dlblas::norm {

enum AddLayerNormTensor : int {
  kAddLayerNormX,
  kAddLayerNormResidual,
  kAddLayerNormWeight,
  kAddLayerNormBias
};
enum AddLayerNormResult : int { kAddLayerNormY, kAddLayerNormResidualOut };

template <typename Row>
void add_layer_norm_row(Row& row) {
  const DType dtype = row.result_dtype(kAddLayerNormY);
  const auto h = [&](auto c) {
    return hidden_sum(row, dtype, kAddLayerNormX, kAddLayerNormResidual, c);
  };
  layer_normed(row, kAddLayerNormWeight, kAddLayerNormBias, h);
  store_hidden(row, kAddLayerNormResidualOut, h);
}

}  // namespace dlblas::norm
