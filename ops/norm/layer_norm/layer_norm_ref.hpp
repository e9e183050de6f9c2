// The oracle of layer_norm: y = (x − mean)/√(var + eps)·weight + bias, in f64, biased variance.
// The error it allows, in units u = 2^-24: that of x̂ (layer_norm_moments.hpp), times |weight|,
// plus one rounding of y if there is a weight or a bias (both together are one fma). Without
// either, y is x̂. Read next: ops/common/oracle_text.hpp, layer_norm_program.hpp.
#pragma once

#include "ops/norm/layer_norm_moments.hpp"

namespace dlblas::norm {

enum LayerNormTensor : int { kLayerNormX, kLayerNormWeight, kLayerNormBias, kLayerNormY };
enum LayerNormScalar : int { kLayerNormEps };

/// Stores result 0 of a row x(column); `weight` and `bias` are positions of tensors.
template <typename Row, typename X>
void layer_normed(Row& row, int weight, int bias, const X& x) {
  const auto width = row.size(kLayerNormC);
  const bool has_weight = row.has(weight), has_bias = row.has(bias);
  const auto moments = layer_norm_moments(row, width, row.scalar(kLayerNormEps), x);
  row.each(width, [&](auto c) {
    const double factor = has_weight ? row.load_column(weight, c) : 1;
    const double y = moments.normed(x(c)) * factor + (has_bias ? row.load_column(bias, c) : 0);
    const double last = has_weight || has_bias ? std::abs(y) + 0x1p-124 : 0;
    row.store(0, c, y, moments.lost ? -1 : std::abs(factor) * moments.normed_off(x(c)) + last);
  });
}

template <typename Row>
void layer_norm_row(Row& row) {
  layer_normed(row, kLayerNormWeight, kLayerNormBias,
               [&](auto c) { return row.load(kLayerNormX, c); });
}

/// The error allowed for y of `dtype`, relative to these magnitudes.
inline Bound layer_norm_bound(DType dtype) {
  const FloatTraits out = float_traits(dtype);
  return {.magnitude = kRounding * (1 + out.eps),
          .value = dtype == DType::kF32 ? 0 : out.eps / 2,
          .absolute = out.tiny};
}

}  // namespace dlblas::norm
