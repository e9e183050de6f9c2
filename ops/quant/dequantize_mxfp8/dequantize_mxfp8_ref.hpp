// The oracle of dequantize_mxfp8. Read next: ops/quant/mx_values_ref.hpp.
#pragma once

#include "ops/quant/mx_values_ref.hpp"

namespace dlblas::quant {

template <typename Row>
void dequantize_mxfp8_row(Row& row) {
  mx_values_row(row, false, 32, -1);
}

}  // namespace dlblas::quant
