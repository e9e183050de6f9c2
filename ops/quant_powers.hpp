// Scales as powers of 2 (ue8m0): rounded up, so that no code saturates. They stay f32, as DeepGEMM
// takes them; on Blackwell it packs their exponents itself. Read next: ops/quant_scale.hpp.
#pragma once

#include "device/row/base.hpp"

namespace dlblas::quant {

struct QuantPowers {
  /// The next power of 2 that is no less than a scale, which is a normal number, infinite or NaN;
  /// where `powers` is 0 the scale as it is.
  DLBLAS_ROW float of(float scale, float powers) {
    if (powers == 0 || !(scale <= 0x1.fffffep127f)) return scale;
    // Any fraction carries into the exponent.
    const auto bits = __builtin_bit_cast(uint32_t, scale);
    return __builtin_bit_cast(float, (bits + 0x7fffffu) & 0x7f800000u);
  }
};

}  // namespace dlblas::quant
