// The oracle of quantize_mxfp8. Read next: ops/quant/mx_ref.hpp.
#pragma once

#include "ops/quant/mx_ref.hpp"

namespace dlblas::quant {

template <typename Row>
void quantize_mxfp8_row(Row& row) {
  quantize_mx_row(row);
}

}  // namespace dlblas::quant
