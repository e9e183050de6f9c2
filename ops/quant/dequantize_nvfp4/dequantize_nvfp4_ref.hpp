// The oracle of dequantize_nvfp4. Read next: ops/quant/mx_values_ref.hpp.
#pragma once

#include "ops/quant/mx_values_ref.hpp"

namespace dlblas::quant {

template <typename Row>
void dequantize_nvfp4_row(Row& row) {
  mx_values_row(row, true, 16, 2);
}

}  // namespace dlblas::quant
