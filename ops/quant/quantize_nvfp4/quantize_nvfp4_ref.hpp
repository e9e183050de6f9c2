// The oracle of quantize_nvfp4. Read next: ops/quant/mx_ref.hpp.
#pragma once

#include "ops/quant/mx_ref.hpp"

namespace dlblas::quant {

template <typename Row>
void quantize_nvfp4_row(Row& row) {
  quantize_nv_row(row);
}

}  // namespace dlblas::quant
