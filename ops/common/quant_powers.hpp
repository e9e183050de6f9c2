// Scales as powers of 2 (ue8m0): rounded up, so that no code saturates. They stay in f32, as
// DeepGEMM takes them; on Blackwell DeepGEMM packs their exponents itself. Read next:
// ops/common/quant_scale.hpp.
#pragma once

#include "device/row/base.hpp"

namespace dlblas::quant {

struct QuantPowers {
  /// The smallest power of 2 not below `scale`, which is a normal number, infinite or NaN; returns
  /// it unchanged if `powers` is 0.
  DLBLAS_ROW float of(float scale, float powers) {
    if (powers == 0 || !(scale <= 0x1.fffffep127f)) return scale;
    // Any fraction carries into the exponent.
    const auto bits = __builtin_bit_cast(uint32_t, scale);
    return __builtin_bit_cast(float, (bits + 0x7fffffu) & 0x7f800000u);
  }
};

}  // namespace dlblas::quant
