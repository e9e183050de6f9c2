// The oracle of quantize_token: a row is one group. Read next: ops/common/quant_ref.hpp.
#pragma once

#include "ops/common/quant_ref.hpp"

namespace dlblas::quant {

enum QuantizeLetter : int { kQuantizeT, kQuantizeK };
enum QuantizeScalar : int { kQuantizeDtype, kQuantizeScaleDtype };

template <typename Row>
void quantize_token_row(Row& row) {
  quantize_columns(row, row.result_dtype(0), 0, row.size(kQuantizeK), 0,
                   row.integer(kQuantizeScaleDtype) != 0);
}

}  // namespace dlblas::quant
