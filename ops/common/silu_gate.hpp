// silu as programs compute it: its value, and for gradients its slope along with it. Values is the
// Target's type: f32, a SIMD vector or the elements of a GPU's access. Shared by gates in every
// family. Read next: ops/common/silu_point.hpp (how exactly).
#pragma once

#include "device/row/program.hpp"

namespace dlblas::activation {

/// x · σ(x).
struct SiluGate {
  template <typename Values>
  DLBLAS_ROW Values value(const Values& x) {
    return silu(x);
  }
  template <typename Values>
  DLBLAS_ROW Values slope(const Values& x, Values& value) {
    const Values one(1.0f), s = sigmoid(x);
    value = x * s;
    return s * (one + x * (one - s));
  }
  /// The slope from s = σ(x) and the value.
  template <typename Values>
  DLBLAS_ROW Values slope_of(const Values& s, const Values& value) {
    return fma(value, Values(1.0f) - s, s);
  }
};

}  // namespace dlblas::activation
