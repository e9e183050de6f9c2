// The oracle of rms_norm_quant_static: codes of a normalised row, with the given scale. Read next:
// ops/norm/rms_norm_quant_ref.hpp, which has the formula and the error it allows.
#pragma once

#include "ops/norm/rms_norm_quant_ref.hpp"

namespace dlblas::norm {

enum RmsNormQuantStaticTensor : int {
  kRmsNormQuantStaticX,
  kRmsNormQuantStaticWeight,
  kRmsNormQuantStaticScale
};

template <typename Row>
void rms_norm_quant_static_row(Row& row) {
  const auto h = [&](auto c) { return row.load(kRmsNormQuantStaticX, c); };
  store_static_codes(row, codes_row(row, h), kRmsNormQuantStaticWeight, kRmsNormQuantStaticScale,
                     h);
}

}  // namespace dlblas::norm
