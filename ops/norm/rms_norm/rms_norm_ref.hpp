// The oracle of rms_norm: y = x · rsqrt(mean_C(x²) + eps) · (weight + weight_offset), in f64.
// Read next: ops/norm/norm_ref.hpp, which has the formula and the error it allows.
#pragma once

#include "ops/norm/norm_ref.hpp"

namespace dlblas::norm {

enum RmsNormTensor : int { kRmsNormX, kRmsNormWeight };

template <typename Row>
void rms_norm_row(Row& row) {
  norm_row(row, row.result_dtype(0), kRmsNormWeight,
           [&](auto c) { return row.load(kRmsNormX, c); });
}

}  // namespace dlblas::norm
