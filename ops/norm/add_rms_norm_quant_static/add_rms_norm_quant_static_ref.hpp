// The oracle of add_rms_norm_quant_static: codes of a normalised sum, with the given scale.
// Read next: ops/norm/rms_norm_quant_ref.hpp, which has the formula and the error it allows.
#pragma once

#include "ops/norm/rms_norm_quant_ref.hpp"

namespace dlblas::norm {

enum AddRmsNormQuantStaticTensor : int {
  kAddRmsNormQuantStaticX,
  kAddRmsNormQuantStaticWeight,
  kAddRmsNormQuantStaticResidual,
  kAddRmsNormQuantStaticScale
};

template <typename Row>
void add_rms_norm_quant_static_row(Row& row) {
  const DType dtype = row.result_dtype(1);
  const auto h = [&](auto c) {
    return hidden_sum(row, dtype, kAddRmsNormQuantStaticX, kAddRmsNormQuantStaticResidual, c);
  };
  store_static_codes(row, codes_row(row, h), kAddRmsNormQuantStaticWeight,
                     kAddRmsNormQuantStaticScale, h);
  store_hidden(row, 1, h);
}

}  // namespace dlblas::norm
