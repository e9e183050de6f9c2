// The gates of this family as programs compute them: their value, and for gradients their slope
// along with it. Values is the Target's type: f32, a SIMD vector or the elements of a GPU's access.
// Infinities and NaN give what the formulas give. Read next: gated.hpp, gates_ref.hpp (how
// exactly).
#pragma once

#include "ops/common/silu_gate.hpp"

namespace dlblas::activation {

/// The polynomial ((first · x + c) · x + …) with the coefficients that follow.
template <typename Values>
DLBLAS_ROW Values horner(const Values&, const Values& first) {
  return first;
}
template <typename Values, typename... More>
DLBLAS_ROW Values horner(const Values& x, const Values& first, float next, More... more) {
  return horner(x, fma(first, x, Values(next)), more...);
}

/// ½ · x · (1 + erf(x / √2)) = x · Φ(x). The slope is Φ(x) + x · e^(−x²/2) / √(2π).
struct GeluGate {
  /// Φ(x), given e^(−x²/2): below 0 it is e^(−x²/2) · q(|x|), above 0 it is 1 − Φ(−x), so that
  /// nothing cancels. q(t) is a polynomial in 1 / (1 + 0.34 t), minimax in relative error on [0,
  /// 14.5], beyond which the exponential is 0. Its error is 0.6 · 2^-24, and 5 · 2^-24 as f32
  /// evaluates it.
  template <typename Values>
  DLBLAS_ROW Values normal(const Values& x, const Values& bell) {
    const Values one(1.0f), w = reciprocal(fma(abs(x), Values(0.340000004f), one));
    const Values q = horner(w, Values(-0.0258771721f), 0.138360485f, -0.270877749f, 0.199724868f,
                            -0.0431110039f, 0.114715479f, 0.11535126f, 0.13609229f, 0.135621578f);
    const Values tail = bell * (q * w);
    return choose_negative(x, tail, one - tail);
  }
  template <typename Values>
  DLBLAS_ROW Values bell(const Values& x) {
    return exp(x * x * Values(-0.5f));
  }
  template <typename Values>
  DLBLAS_ROW Values value(const Values& x) {
    return x * normal(x, bell(x));
  }
  template <typename Values>
  DLBLAS_ROW Values slope(const Values& x, Values& value) {
    const Values density = bell(x), share = normal(x, density);
    value = x * share;
    return share + x * (density * Values(0.398942280f));
  }
};

/// ½ · x · (1 + tanh(√(2/π) · (x + 0.044715 x³))) = x · σ(y), y = x · (kA + kB · x²): one
/// exponential, and no cancellation where x is below 0. The slope is σ + σ · (1 − σ) · x · y′.
struct GeluTanhGate {
  static constexpr float kA = 1.59576912f, kB = 0.0713548163f;  // 2·√(2/π), and 0.044715 of it
  template <typename Values>
  DLBLAS_ROW Values exponential(const Values& x, const Values& square) {
    return exp(Values(0.0f) - x * fma(Values(kB), square, Values(kA)));
  }
  template <typename Values>
  DLBLAS_ROW Values value(const Values& x) {
    return x * reciprocal(Values(1.0f) + exponential(x, x * x));
  }
  template <typename Values>
  DLBLAS_ROW Values slope(const Values& x, Values& value) {
    const Values square = x * x, e = exponential(x, square), s = reciprocal(Values(1.0f) + e);
    value = x * s;
    // σ · (1 − σ) = e · σ², which does not cancel; min() makes ∞ · 0 equal 0. Beyond 32 the product
    // is 0, and y′ must stay finite.
    const Values product = min(e, Values(0x1.fffffep127f)) * s * s;
    const Values inner = fma(Values(3 * kB), min(square, Values(1024.0f)), Values(kA));
    return s + product * x * inner;
  }
};

}  // namespace dlblas::activation
