// The oracle of add_rms_norm_quant_token: codes of a normalised sum; a row is one group.
// Read next: ops/norm/rms_norm_quant_ref.hpp, which has the formula and the error it allows.
#pragma once

#include "ops/norm/rms_norm_quant_ref.hpp"

namespace dlblas::norm {

enum AddRmsNormQuantTokenTensor : int {
  kAddRmsNormQuantTokenX,
  kAddRmsNormQuantTokenWeight,
  kAddRmsNormQuantTokenResidual
};

template <typename Row>
void add_rms_norm_quant_token_row(Row& row) {
  const DType dtype = row.result_dtype(2);
  const auto h = [&](auto c) {
    return hidden_sum(row, dtype, kAddRmsNormQuantTokenX, kAddRmsNormQuantTokenResidual, c);
  };
  store_codes(row, codes_row(row, h), kAddRmsNormQuantTokenWeight, h, 0, row.size(kC), 0);
  store_hidden(row, 2, h);
}

}  // namespace dlblas::norm
