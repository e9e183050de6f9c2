// Functions of one SIMD vector of f32: comparison and selection, division, minimum and maximum,
// exp, log, tanh, erf and functions derived from them. Compiled once per instruction set, like
// cpu/simd.hpp. Numerics, against f64 (tests/cpp/test_cpu_math.cpp): exp, exp2, log, sigmoid and
// erf within 4 ulp, tanh within 8; results of exp below 2^-125 are 0; NaN stays NaN, infinities
// give what the formulas give. Read next: cpu/row/values.hpp.
#pragma once

#include "cpu/simd.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

using Ints = int32_t __attribute__((vector_size(sizeof(Vec))));

// Comparisons return a Mask: one bit per lane on AVX-512, elsewhere all ones in the lanes where
// they hold. None holds for NaN.
#if defined(__AVX512F__)
using Mask = __mmask16;
DLBLAS_INLINE Mask less(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
DLBLAS_INLINE Mask equal(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
DLBLAS_INLINE Mask is_nan(Vec a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
DLBLAS_INLINE Vec choose(Mask mask, Vec yes, Vec no) { return _mm512_mask_blend_ps(mask, no, yes); }
DLBLAS_INLINE Ints choose(Mask mask, Ints yes, Ints no) {
  return (Ints)_mm512_mask_blend_epi32(mask, (__m512i)no, (__m512i)yes);
}
DLBLAS_INLINE bool any(Mask mask) { return mask != 0; }
DLBLAS_INLINE uint32_t bits_of(Mask mask) { return mask; }
DLBLAS_INLINE Mask lanes_below(int n) { return first_lanes(n); }
/// b if either is NaN.
DLBLAS_INLINE Vec max_number(Vec a, Vec b) { return _mm512_max_ps(a, b); }
DLBLAS_INLINE Vec min_number(Vec a, Vec b) { return _mm512_min_ps(a, b); }
DLBLAS_INLINE Vec round_to_whole(Vec x) {
  return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
DLBLAS_INLINE Ints round_to_ints(Vec x) { return (Ints)_mm512_cvtps_epi32(x); }
DLBLAS_INLINE Ints max(Ints a, Ints b) { return (Ints)_mm512_max_epi32((__m512i)a, (__m512i)b); }
#else
using Mask = Ints;
DLBLAS_INLINE Mask equal(Vec a, Vec b) { return (Mask)(a == b); }
DLBLAS_INLINE Mask is_nan(Vec a) { return (Mask)(a != a); }
DLBLAS_INLINE Ints choose(Mask mask, Ints yes, Ints no) { return (mask & yes) | (~mask & no); }
DLBLAS_INLINE Mask lanes_below(int n) {
  Ints lane;
  DLBLAS_UNROLL for (int i = 0; i < kWidth; ++i) lane[i] = i;
  return (Mask)(lane < n);
}
#if defined(__AVX2__)
DLBLAS_INLINE Mask less(Vec a, Vec b) { return (Mask)_mm256_cmp_ps(a, b, _CMP_LT_OQ); }
DLBLAS_INLINE Vec choose(Mask mask, Vec yes, Vec no) {
  return _mm256_blendv_ps(no, yes, (Vec)mask);
}
DLBLAS_INLINE bool any(Mask mask) { return _mm256_movemask_ps((Vec)mask) != 0; }
DLBLAS_INLINE uint32_t bits_of(Mask mask) {
  return static_cast<uint32_t>(_mm256_movemask_ps((Vec)mask));
}
DLBLAS_INLINE Vec max_number(Vec a, Vec b) { return _mm256_max_ps(a, b); }
DLBLAS_INLINE Vec min_number(Vec a, Vec b) { return _mm256_min_ps(a, b); }
DLBLAS_INLINE Vec round_to_whole(Vec x) {
  return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
DLBLAS_INLINE Ints round_to_ints(Vec x) { return (Ints)_mm256_cvtps_epi32(x); }
DLBLAS_INLINE Ints max(Ints a, Ints b) { return (Ints)_mm256_max_epi32((__m256i)a, (__m256i)b); }
#else
DLBLAS_INLINE Mask less(Vec a, Vec b) { return (Mask)(a < b); }
DLBLAS_INLINE Vec choose(Mask mask, Vec yes, Vec no) {
  return (Vec)((mask & (Ints)yes) | (~mask & (Ints)no));
}
DLBLAS_INLINE bool any(Mask mask) { return (mask[0] | mask[1] | mask[2] | mask[3]) != 0; }
/// One bit per lane, the first lane's the lowest.
DLBLAS_INLINE uint32_t bits_of(Mask mask) {
  uint32_t bits = 0;
  for (int i = 0; i < kWidth; ++i) bits |= static_cast<uint32_t>(mask[i] & 1) << i;
  return bits;
}
#if defined(__SSE2__)
DLBLAS_INLINE Vec max_number(Vec a, Vec b) { return _mm_max_ps(a, b); }
DLBLAS_INLINE Vec min_number(Vec a, Vec b) { return _mm_min_ps(a, b); }
#else
DLBLAS_INLINE Vec max_number(Vec a, Vec b) { return choose(less(b, a), a, b); }
DLBLAS_INLINE Vec min_number(Vec a, Vec b) { return choose(less(a, b), a, b); }
#endif
/// For |x| < 2^22: adding 1.5 · 2^23 rounds.
DLBLAS_INLINE Vec round_to_whole(Vec x) {
  return (x + broadcast(12582912.0f)) - broadcast(12582912.0f);
}
DLBLAS_INLINE Ints round_to_ints(Vec x) { return __builtin_convertvector(round_to_whole(x), Ints); }
DLBLAS_INLINE Ints max(Ints a, Ints b) { return choose(a > b, a, b); }
#endif
#endif

DLBLAS_INLINE Vec sub(Vec a, Vec b) { return a - b; }
DLBLAS_INLINE Vec div(Vec a, Vec b) { return a / b; }
DLBLAS_INLINE Vec reciprocal(Vec a) { return broadcast(1.0f) / a; }
/// NaN wins.
DLBLAS_INLINE Vec max(Vec a, Vec b) { return choose(is_nan(a), a, max_number(a, b)); }
DLBLAS_INLINE Vec min(Vec a, Vec b) { return choose(is_nan(a), a, min_number(a, b)); }
DLBLAS_INLINE float reduce_max(Vec a) {
#if defined(__AVX512F__)
  return any(is_nan(a)) ? __builtin_nanf("") : _mm512_reduce_max_ps(a);
#elif defined(__AVX2__)
  if (any(is_nan(a))) return __builtin_nanf("");
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
#else
  float lanes[kWidth];
  store<DType::kF32>(lanes, a);
  for (int d = kWidth / 2; d > 0; d /= 2)
    for (int i = 0; i < d; ++i)
      lanes[i] = lanes[i] > lanes[i + d] || lanes[i] != lanes[i] ? lanes[i] : lanes[i + d];
  return lanes[0];
#endif
}
/// The lanes where either is NaN.
DLBLAS_INLINE Mask any_nan(Vec a, Vec b) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q);
#elif defined(__AVX2__)
  return (Mask)_mm256_cmp_ps(a, b, _CMP_UNORD_Q);
#else
  return is_nan(a) | is_nan(b);
#endif
}
DLBLAS_INLINE Vec abs(Vec a) { return (Vec)((Ints)a & 0x7fffffff); }
/// |magnitude| with the sign of `sign`.
DLBLAS_INLINE Vec with_sign(Vec magnitude, Vec sign) {
  return (Vec)(((Ints)magnitude & 0x7fffffff) | ((Ints)sign & ~0x7fffffff));
}

/// c[0] x^(n−1) + … + c[n−1].
template <int kTerms>
DLBLAS_INLINE Vec polynomial(Vec x, const float (&c)[kTerms]) {
  Vec p = broadcast(c[0]);
  DLBLAS_UNROLL for (int i = 1; i < kTerms; ++i) p = fma(p, x, broadcast(c[i]));
  return p;
}

#if defined(__AVX512F__)
/// 2^n · e^r, where n is a multiple of 1/16, z = n + kSixteenths, and |r| ≤ ln 2 / 32: powers of
/// 2^(1/16) come from a table in a register, so that three terms suffice for r (2^-26 relative).
/// scalef applies the integer part of n, and saturates by itself.
constexpr float kSixteenths = 786432.0f;  // 1.5 · 2^19: a sum's last bit is 1/16
DLBLAS_INLINE Vec power_of_sixteenth(Vec z) {
  const Vec powers =
      _mm512_setr_ps(1.0f, 1.04427378f, 1.09050773f, 1.13878863f, 1.18920712f, 1.24185781f,
                     1.29683955f, 1.35425555f, 1.41421356f, 1.47682615f, 1.54221083f, 1.61049033f,
                     1.68179283f, 1.75625216f, 1.83400809f, 1.91520656f);
  return _mm512_permutexvar_ps((__m512i)z, powers);
}
DLBLAS_INLINE Vec scaled_exp(Vec z, Vec n, Vec r) {
  const Vec less_1 = polynomial(r, {1.66666667e-1f, 0.5f, 1.0f}) * r, t = power_of_sixteenth(z);
  return _mm512_scalef_ps(fma(less_1, t, t), n);
}
/// e^x = 2^n · e^r.
DLBLAS_INLINE Vec exp(Vec x) {
  const Vec y = max_number(broadcast(-104.0f), min_number(broadcast(89.0f), x));
  const Vec z = fma(y, broadcast(1.44269504f), broadcast(kSixteenths));
  const Vec n = z - broadcast(kSixteenths);
  Vec r = fma(n, broadcast(-0.693359375f), y);
  r = fma(n, broadcast(2.12194440e-4f), r);
  return scaled_exp(z, n, r);
}
DLBLAS_INLINE Vec exp2(Vec x) {
  const Vec y = max_number(broadcast(-150.0f), min_number(broadcast(129.0f), x));
  const Vec z = y + broadcast(kSixteenths), n = z - broadcast(kSixteenths);
  return scaled_exp(z, n, (y - n) * broadcast(0.693147181f));
}
/// e^x for x ≤ 0, with an extra error of |x| / 4 ulp; 0 below −87. scalef and the products compete
/// for the same two multipliers, so the exponent is added as an integer.
DLBLAS_INLINE Vec exp_of_negative(Vec x) {
  const Vec z = fma(x, broadcast(1.44269504f), broadcast(kSixteenths));
  const Vec n = z - broadcast(kSixteenths);
  const Vec r = _mm512_fmsub_ps(x, broadcast(1.44269504f), n);
  const Vec less_1 = polynomial(r, {5.55041087e-2f, 2.40226507e-1f, 6.93147181e-1f}) * r;
  const Vec t = power_of_sixteenth(z), p = fma(less_1, t, t);
  const __m512i whole = _mm512_cvt_roundps_epi32(n, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  const Mask held = _mm512_cmp_ps_mask(x, broadcast(-87.0f), _CMP_NLT_UQ);  // NaN stays
  return (Vec)_mm512_maskz_add_epi32(held, (__m512i)p, _mm512_slli_epi32(whole, 23));
}
#else
/// 2^n · e^r for an integer n and |r| ≤ ln 2 / 2, with n and r from `x` clamped to [low, high]: 0
/// below, inf above. The polynomial is within 2e-8 relative; minimax of the relative error.
DLBLAS_INLINE Vec scaled_exp(Vec x, Vec n, Vec r, float low, float high) {
  const Vec p = polynomial(
      r, {1.3843607e-3f, 8.3741955e-3f, 4.1668005e-2f, 1.6666430e-1f, 4.9999994e-1f, 1.0f, 1.0f});
  // Adds n to the exponent of p, which is ½ to 2: never out of range between low and high.
#if defined(__AVX2__)
  const Ints exponent = (Ints)_mm256_cvtps_epi32(n);
#else
  const Ints exponent = __builtin_convertvector(n, Ints);
#endif
  const Vec e = (Vec)((Ints)p + (exponent << 23));
  return choose(less(broadcast(high), x), broadcast(__builtin_inff()),
                choose(less(x, broadcast(low)), zero(), choose(is_nan(x), x, e)));
}
/// e^x = 2^n · e^r, |r| ≤ ln 2 / 2.
DLBLAS_INLINE Vec exp(Vec x) {
  constexpr float kLow = -87.336f, kHigh = 88.72283f;
  const Vec y = max_number(broadcast(kLow), min_number(broadcast(kHigh), x));
  const Vec n = round_to_whole(y * broadcast(1.44269504f));
  Vec r = fma(n, broadcast(-0.693359375f), y);
  r = fma(n, broadcast(2.12194440e-4f), r);
  return scaled_exp(x, n, r, kLow, kHigh);
}
DLBLAS_INLINE Vec exp2(Vec x) {
  constexpr float kLow = -126.0f, kHigh = 127.99999f;
  const Vec y = max_number(broadcast(kLow), min_number(broadcast(kHigh), x));
  const Vec n = round_to_whole(y);
  return scaled_exp(x, n, (y - n) * broadcast(0.693147181f), kLow, kHigh);
}
DLBLAS_INLINE Vec exp_of_negative(Vec x) { return exp(x); }
#endif

/// log x = n · ln 2 + log m, m in [√½, √2); coefficients of Cephes' logf.
DLBLAS_INLINE Vec log(Vec x) {
  const Mask small = less(x, broadcast(0x1p-126f));
  const Vec scaled = choose(small, x * broadcast(0x1p23f), x);
  const Ints bits = (Ints)scaled;
  Ints n = (bits >> 23) - choose(small, Ints{} + 149, Ints{} + 126);
  Vec m = (Vec)((bits & 0x7fffff) | 0x3f000000);  // [½, 1)
  const Mask below = less(m, broadcast(0.70710678f));
  n -= choose(below, Ints{} + 1, Ints{});
  m = choose(below, m + m, m) - broadcast(1.0f);
  const Vec whole = __builtin_convertvector(n, Vec), square = m * m;
  Vec p = polynomial(m, {7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f,
                         1.4249322787e-1f, -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f,
                         3.3333331174e-1f});
  p = p * m * square;
  p = fma(whole, broadcast(-2.12194440e-4f), p);
  p = fma(square, broadcast(-0.5f), p);
  Vec result = fma(whole, broadcast(0.693359375f), m + p);
  result = choose(less(x, zero()), broadcast(__builtin_nanf("")), choose(is_nan(x), x, result));
  result = choose(equal(x, zero()), broadcast(-__builtin_inff()), result);
  return choose(equal(x, broadcast(__builtin_inff())), x, result);
}

DLBLAS_INLINE Vec sigmoid(Vec x) { return broadcast(1.0f) / (broadcast(1.0f) + exp(zero() - x)); }
DLBLAS_INLINE Vec silu(Vec x) { return x / (broadcast(1.0f) + exp(zero() - x)); }

DLBLAS_INLINE Vec tanh(Vec x) {
  const Vec magnitude = abs(x), square = x * x;
  const Vec large =
      broadcast(1.0f) - broadcast(2.0f) / (exp(magnitude + magnitude) + broadcast(1.0f));
  const Vec p = polynomial(square, {-5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f,
                                    1.33314422036e-1f, -3.33332819422e-1f});
  return choose(less(magnitude, broadcast(0.625f)), fma(p * square, x, x), with_sign(large, x));
}

/// An odd polynomial below 0.92, 1 − e^p(|x|) above.
DLBLAS_INLINE Vec erf(Vec x) {
  const Vec t = abs(x), s = x * x;
  Vec r = fma(broadcast(-1.72853470e-5f), t, broadcast(3.83197126e-4f));
  const Vec u = fma(broadcast(-3.88396438e-3f), t, broadcast(2.42546219e-2f));
  r = fma(r, s, u);
  r = fma(r, t, broadcast(-1.06777877e-1f));
  r = fma(r, t, broadcast(-6.34846687e-1f));
  r = fma(r, t, broadcast(-1.28717512e-1f));
  r = fma(r, t, zero() - t);
  // From 4 on the result is 1, and the polynomial no longer falls.
  r = choose(less(broadcast(4.0f), t), broadcast(-20.0f), r);
  const Vec large = with_sign(broadcast(1.0f) - exp(r), x);
  const Vec p = polynomial(s, {-5.96761703e-4f, 4.99119423e-3f, -2.67681349e-2f, 1.12819925e-1f,
                               -3.76125336e-1f, 1.28379166e-1f});
  return choose(less(broadcast(0.921875f), t), large, fma(p, x, x));
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
