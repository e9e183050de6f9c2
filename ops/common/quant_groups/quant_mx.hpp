// Scales of microscaling formats, as kernels compute them: in f32, each step rounded, so every
// device computes the same bits. In: the bits of a block's largest magnitude. Out: the scale's
// code, and the factor that elements are multiplied by before rounding. Read next:
// ops/quant/mx_ref.hpp.
#pragma once

#include "device/row/base.hpp"
#include "ops/common/quant_groups/quant_groups_config.hpp"

namespace dlblas::quant {

/// Exponent of the largest element: 448 = 1.75 · 2^8, 6 = 1.5 · 2^2.
constexpr int32_t top_exponent(DType type) { return type == DType::kF8E4M3 ? 8 : 2; }

struct MxScale {
  uint32_t code;
  float factor;
};

struct MxScales {
  /// The OCP rule: 2^(⌊log2 amax⌋ − top); elements saturate. NaN or infinity makes the scale NaN.
  DLBLAS_ROW MxScale power(uint32_t most, DType type) {
    if (most >= 0x7f800000u) return {255, __builtin_bit_cast(float, 0x7fc00000u)};
    const int32_t code = static_cast<int32_t>(most >> 23) - top_exponent(type);
    const uint32_t kept = code < 0 ? 0 : static_cast<uint32_t>(code);
    return {kept, __builtin_bit_cast(float, (254 - kept) << 23)};
  }
  /// The value to round to e4m3: amax / (6 · global).
  DLBLAS_ROW float wanted(uint32_t most, float global) {
    return __builtin_bit_cast(float, most) / (6.0f * global);
  }
  /// The factor for `step`, a scale rounded to e4m3; a block with scale 0 becomes zeros.
  DLBLAS_ROW float factor(float step, float global) {
    return step == 0 ? 0.0f : 1.0f / (step * global);
  }
};

}  // namespace dlblas::quant
