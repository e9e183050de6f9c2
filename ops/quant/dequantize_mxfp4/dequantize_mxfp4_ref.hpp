// The oracle of dequantize_mxfp4. Read next: ops/quant/mx_values_ref.hpp.
#pragma once

#include "ops/quant/mx_values_ref.hpp"

namespace dlblas::quant {

template <typename Row>
void dequantize_mxfp4_row(Row& row) {
  mx_values_row(row, true, 32, -1);
}

}  // namespace dlblas::quant
