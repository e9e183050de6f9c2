// The oracle of add_rms_norm: h = round(x + residual), residual_out = h, y = rms_norm(h). h is
// computed in f32 and rounded to x's dtype, as in PyTorch: bit-exact in every implementation.
// Everything after h is f64. Read next: ops/norm/norm_ref.hpp.
#pragma once

#include "ops/norm/norm_ref.hpp"

namespace dlblas::norm {

enum AddRmsNormTensor : int { kAddRmsNormX, kAddRmsNormWeight, kAddRmsNormResidual };
enum AddRmsNormResult : int { kAddRmsNormY, kAddRmsNormResidualOut };

template <typename Row>
void add_rms_norm_row(Row& row) {
  const DType dtype = row.result_dtype(kAddRmsNormY);
  const auto h = [&](auto c) {
    return hidden_sum(row, dtype, kAddRmsNormX, kAddRmsNormResidual, c);
  };
  norm_row(row, dtype, kAddRmsNormWeight, h);
  store_hidden(row, kAddRmsNormResidualOut, h);
}

inline Bound add_rms_norm_bound(DType dtype, int result) {
  if (result == kAddRmsNormResidualOut) return kHiddenBound;
  return row_bound(dtype);
}

}  // namespace dlblas::norm
