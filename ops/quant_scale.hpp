// The scale of quantised values, as programs compute it: amax / largest, so that x ≈ q · scale.
// One where there is nothing but zeros; never below 2^-126, so that it and its reciprocal are
// normal numbers. A NaN makes it NaN, and an infinity infinite: such a row says so when it is
// dequantised. Beside others: DeepGEMM and SGLang take max(amax, 1e-4 or 1e-10) / 448, which loses
// rows of small values. Read next: quant/quantize_token/quantize_token_program.hpp.
#pragma once

#include "device/row/base.hpp"

namespace dlblas::quant {

template <typename Math>
struct QuantScale {
  /// `largest`: of the type of q.
  DLBLAS_ROW float of(float amax, float largest) {
    return amax <= 0 ? 1.0f : Math::max(Math::quotient(amax, largest), 0x1p-126f);
  }
};

}  // namespace dlblas::quant
