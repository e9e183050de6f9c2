// What exponents of a softmax lose: the largest score, times `factor`, by one FMA each. The product
// is rounded once for all of a row, to half a unit of its last place, and every weight gets 2^that.
// Of logits beyond 2^28 that is no weight any more: f16 holds 2^16, f32 2^128, and the largest
// weight became infinite or 0. There (`far`) scores lose the maximum before they meet `factor`.
// For hosts too, behind <cmath> (tests/cpp/test_softmax_exponent.cpp). Read next:
// online_softmax.cuh.
#pragma once

#ifndef __CUDACC__
#define DLBLAS_EXPONENT inline
#else
#define DLBLAS_EXPONENT __device__ __forceinline__
#endif

namespace dlblas {

/// Rounded, where a compiler would fuse it with what follows.
DLBLAS_EXPONENT float rounded_product(float a, float b) {
#ifndef __CUDACC__
  return a * b;
#else
  return __fmul_rn(a, b);
#endif
}

/// `base`: what x · factor loses. far: 0, for scores that have lost the maximum.
struct ExponentBase {
  float base;
  bool far;
};

/// `peak`: of a row so far; −inf where it has met nothing.
DLBLAS_EXPONENT ExponentBase exponent_base(float peak, float factor) {
  constexpr float kFar = 65536;  // 2^-8 of an exponent
  const float product = rounded_product(peak, factor);
  const bool nothing = peak < -3.402823466e38f;
  const bool far = !nothing && fabsf(product) > kFar;
  return {nothing || far ? 0.0f : product, far};
}
/// The exponent of a score that has not lost the maximum.
DLBLAS_EXPONENT float exponent_of(const ExponentBase& by, float x, float peak, float factor) {
  return fmaf(by.far ? x - peak : x, factor, -by.base);
}

/// What weights that have lost an earlier maximum, `most`, are raised by when it becomes `peak`: 0
/// if it stays. As a fused product that would be what the base's rounding left, a factor next to 1
/// in every block of keys, always to one side: 45 units of the last place of a sum over 1,500 keys.
DLBLAS_EXPONENT float rescale_exponent(const ExponentBase& by, float most, float peak,
                                       float factor) {
  return by.far ? (most - peak) * factor : rounded_product(most, factor) - by.base;
}
/// log2 Σ 2^(score · factor), of a sum of weights that have lost `most`.
DLBLAS_EXPONENT float log2_of_sum(float most, float factor, float log2_of_weights) {
  return rounded_product(most, factor) + log2_of_weights;
}

/// A base that raises weights by 2^raise. Beyond 2^27 it is a multiple of 16: 10 would become 16,
/// which f16 does not hold.
DLBLAS_EXPONENT float raised_base(float base, float raise) {
  return fabsf(base) < 0x1p27f ? base - raise : base;
}

}  // namespace dlblas
#undef DLBLAS_EXPONENT
