// Subtracts the largest score, times `factor`, from the exponents of a softmax, with one FMA each.
// That product is rounded once for a whole row, with an error of up to half an ulp, and every
// weight is scaled by 2^error. For logits beyond 2^28 the weights are then useless: f16 holds 2^16,
// f32 2^128, and the largest weight became infinite or 0. There (`far`) scores lose the maximum
// before they are multiplied by `factor`. Compiles for hosts too, after <cmath>
// (tests/cpp/test_softmax_exponent.cpp). Read next: online_softmax.cuh.
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

/// `base`: subtracted from x · factor. far: it is 0, for scores that have already lost the maximum.
struct ExponentBase {
  float base;
  bool far;
};

/// `peak`: the row's maximum so far; −inf before the first score.
DLBLAS_EXPONENT ExponentBase exponent_base(float peak, float factor) {
  constexpr float kFar = 65536;  // 2^-8 of an exponent
  const float product = peak < -3.402823466e38f ? 0.0f : rounded_product(peak, factor);
  const bool far = fabsf(product) > kFar;
  return {far ? 0.0f : product, far};
}
/// The exponent of a score that has not yet lost the maximum.
DLBLAS_EXPONENT float exponent_of(const ExponentBase& by, float x, float peak, float factor) {
  return fmaf(by.far ? x - peak : x, factor, -by.base);
}

/// The exponent that rescales weights relative to an earlier maximum, `most`, when it becomes
/// `peak`: 0 if it stays. A fused product would return the base's rounding error instead of 0: a
/// factor close to 1 for every block of keys, always to one side, 45 ulp of a sum over 1,500 keys.
DLBLAS_EXPONENT float rescale_exponent(const ExponentBase& by, float most, float peak,
                                       float factor) {
  return by.far ? (most - peak) * factor : rounded_product(most, factor) - by.base;
}
/// log2 Σ 2^(score · factor), from a sum of weights relative to `most`.
DLBLAS_EXPONENT float log2_of_sum(float most, float factor, float log2_of_weights) {
  return rounded_product(most, factor) + log2_of_weights;
}

/// A base that raises weights by 2^raise. Beyond 2^27, where it is a multiple of 16, it stays: a
/// raise of 10 would become 16, and f16 does not hold 2^16.
DLBLAS_EXPONENT float raised_base(float base, float raise) {
  return fabsf(base) < 0x1p27f ? base - raise : base;
}

}  // namespace dlblas
#undef DLBLAS_EXPONENT
