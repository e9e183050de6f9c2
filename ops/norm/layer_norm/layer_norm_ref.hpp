// The oracle of layer_norm: y = (x − mean)/√(var + eps)·weight + bias, in f64, biased variance.
// The error it allows, in units u = 2^-24: that of x̂ (layer_norm_moments.hpp), times |weight|; one
// rounding of y where there is a weight or a bias, since both together are one fma. Without either
// x̂ is y. Read next: ops/oracle_text.hpp, layer_norm_program.hpp.
#pragma once

#include "ops/norm/layer_norm_moments.hpp"

namespace dlblas::norm {

enum LayerNormTensor : int { kLayerNormX, kLayerNormWeight, kLayerNormBias, kLayerNormY };
enum LayerNormScalar : int { kLayerNormEps };

template <typename Row>
void layer_norm_row(Row& row) {
  const auto width = row.size(kLayerNormC);
  const bool has_weight = row.has(kLayerNormWeight), has_bias = row.has(kLayerNormBias);
  const auto x = [&](auto c) { return row.load(kLayerNormX, c); };
  const auto moments = layer_norm_moments(row, width, row.scalar(kLayerNormEps), x);
  row.each(width, [&](auto c) {
    const double weight = has_weight ? row.load_column(kLayerNormWeight, c) : 1;
    const double bias = has_bias ? row.load_column(kLayerNormBias, c) : 0;
    const double y = moments.normed(x(c)) * weight + bias;
    const double last = has_weight || has_bias ? std::abs(y) + 0x1p-124 : 0;
    row.store(0, c, y, moments.lost ? -1 : std::abs(weight) * moments.normed_off(x(c)) + last);
  });
}

}  // namespace dlblas::norm
