// The scale of quantised values, as programs compute it: amax / largest, so that x ≈ q · scale. It
// is 1 if all values are zero, and never below 2^-126, so that it and its reciprocal are normal
// numbers. NaN makes it NaN, infinity makes it infinite, which shows when the row is dequantised.
// For comparison: DeepGEMM and SGLang use max(amax, 1e-4 or 1e-10) / 448, which loses rows of small
// values. Read next: quant/quantize_token/quantize_token_program.hpp.
#pragma once

#include "device/row/base.hpp"

namespace dlblas::quant {

template <typename Math>
struct QuantScale {
  /// `largest`: the largest value of q's type.
  DLBLAS_ROW float of(float amax, float largest) {
    return amax <= 0 ? 1.0f : Math::max(Math::quotient(amax, largest), 0x1p-126f);
  }
};

}  // namespace dlblas::quant
