// The oracle of rms_norm_quant_token: codes of a normalised row; a row is one group.
// Read next: ops/norm/rms_norm_quant_ref.hpp, which has the formula and the error it allows.
#pragma once

#include "ops/norm/rms_norm_quant_ref.hpp"

namespace dlblas::norm {

enum RmsNormQuantTokenTensor : int { kRmsNormQuantTokenX, kRmsNormQuantTokenWeight };

template <typename Row>
void rms_norm_quant_token_row(Row& row) {
  const auto h = [&](auto c) { return row.load(kRmsNormQuantTokenX, c); };
  store_codes(row, codes_row(row, h), kRmsNormQuantTokenWeight, h, 0, row.size(kC), 0);
}

}  // namespace dlblas::norm
