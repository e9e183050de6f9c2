// Functions of one SIMD vector of f32: comparison and selection, division, minimum and maximum,
// exp, log, tanh, erf and what follows from them. Compiled once per instruction set, as
// cpu/simd.hpp. Numerics, against f64 (tests/cpp/test_cpu_math.cpp): exp, exp2, log, sigmoid and
// erf within 4 units of the last place, tanh within 8; results of exp below 2^-125 are 0; NaN stays
// NaN, infinities as the formulas give. Read next: cpu/row/values.hpp.
#pragma once

#include "cpu/simd.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

using Ints = int32_t __attribute__((vector_size(sizeof(Vec))));

// Comparisons give a Mask: one bit per lane on AVX-512, elsewhere all ones in the lanes where they
// hold. With NaN none holds.
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
DLBLAS_INLINE Mask lanes_below(int n) { return first_lanes(n); }
/// Of NaN and a number, b.
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
#if defined(__SSE2__)
DLBLAS_INLINE Vec max_number(Vec a, Vec b) { return _mm_max_ps(a, b); }
DLBLAS_INLINE Vec min_number(Vec a, Vec b) { return _mm_min_ps(a, b); }
#else
DLBLAS_INLINE Vec max_number(Vec a, Vec b) { return choose(less(b, a), a, b); }
DLBLAS_INLINE Vec min_number(Vec a, Vec b) { return choose(less(a, b), a, b); }
#endif
/// |x| < 2^22: adding 1.5 · 2^23 rounds.
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
/// 2^(i/32), and the same with i taken off its bits from 2^18 on: adding the bits of a sum n +
/// kThirtySeconds, n a multiple of 1/32, to those 18 places up multiplies by 2^n.
constexpr float kThirtySeconds = 393216.0f;  // 1.5 · 2^18: a sum's last bit is 1/32
struct Powers {
  alignas(64) float of_part[32] = {
      1.0f,        1.0218972f,  1.04427373f, 1.06714046f, 1.09050775f, 1.1143868f,  1.13878858f,
      1.1637249f,  1.18920708f, 1.21524739f, 1.24185777f, 1.26905096f, 1.29683959f, 1.32523668f,
      1.35425556f, 1.38390994f, 1.41421354f, 1.44518077f, 1.47682619f, 1.50916445f, 1.54221082f,
      1.5759809f,  1.61049032f, 1.64575553f, 1.68179286f, 1.71861935f, 1.75625217f, 1.79470909f,
      1.8340081f,  1.87416768f, 1.91520655f, 1.95714414f};
  alignas(64) int32_t to_be_scaled[32] = {};
  constexpr Powers() {
    for (int i = 0; i < 32; ++i)
      to_be_scaled[i] = __builtin_bit_cast(int32_t, of_part[i]) - (i << 18);
  }
};
constexpr Powers kPowers;
/// By the last five bits of a sum n + kThirtySeconds.
DLBLAS_INLINE Vec of_last_bits(Vec z, const void* table) {
  return _mm512_permutex2var_ps(load<DType::kF32>(table), (__m512i)z,
                                load<DType::kF32>(at<DType::kF32>(table, 16)));
}
/// 2^r − 1 for |r| ≤ 1/64, within 0.9 · 2^-24 of 2^r.
DLBLAS_INLINE Vec small_power_less_1(Vec r) {
  return polynomial(r, {2.40226507e-1f, 6.93157315e-1f}) * r;
}
/// 2^n · 2^r; scalef takes the whole part of n, and saturates by itself.
DLBLAS_INLINE Vec scaled_power(Vec z, Vec n, Vec r) {
  const Vec t = of_last_bits(z, kPowers.of_part);
  return _mm512_scalef_ps(fma(small_power_less_1(r), t, t), n);
}
/// e^(sign · x), |x| ≤ 104 or so.
DLBLAS_INLINE Vec exp_of_bounded(Vec x, float sign) {
  const Vec per_ln_2 = broadcast(sign * 1.44269502f);
  const Vec z = fma(x, per_ln_2, broadcast(kThirtySeconds)), n = z - broadcast(kThirtySeconds);
  const Vec r = fma(x, broadcast(sign * 1.92596303e-8f), _mm512_fmsub_ps(x, per_ln_2, n));
  return scaled_power(z, n, r);
}
DLBLAS_INLINE Vec exp(Vec x) {
  return exp_of_bounded(max_number(broadcast(-104.0f), min_number(broadcast(89.0f), x)), 1);
}
DLBLAS_INLINE Vec exp2(Vec x) {
  const Vec y = max_number(broadcast(-150.0f), min_number(broadcast(129.0f), x));
  const Vec z = y + broadcast(kThirtySeconds), n = z - broadcast(kThirtySeconds);
  return scaled_power(z, n, y - n);
}
/// e^x of x ≤ 0, off by another |x| / 4 units of the last place; 0 below −87. scalef and the
/// products hold the same two multipliers, so the exponent is added as an integer.
DLBLAS_INLINE Vec exp_of_negative(Vec x) {
  const Vec z = fma(x, broadcast(1.44269502f), broadcast(kThirtySeconds));
  const Vec n = z - broadcast(kThirtySeconds);
  const Vec r = _mm512_fmsub_ps(x, broadcast(1.44269502f), n);
  const Vec t = (Vec)((Ints)of_last_bits(z, kPowers.to_be_scaled) + ((Ints)z << 18));
  const Mask held = _mm512_cmp_ps_mask(x, broadcast(-87.0f), _CMP_NLT_UQ);  // NaN stays
  return _mm512_maskz_fmadd_ps(held, small_power_less_1(r), t, t);
}
DLBLAS_INLINE Vec silu(Vec x) {
  // The smaller magnitude, with the sign of x.
  const Vec y = _mm512_range_ps(x, broadcast(104.0f), 0b0010);
  return x / (broadcast(1.0f) + exp_of_bounded(y, -1));
}
#else
/// 2^n · e^r for a whole n and |r| ≤ ln 2 / 2, where `x` was clamped to [low, high]: below it 0,
/// above it inf. The polynomial is within 2e-8 relative; minimax of the relative error.
DLBLAS_INLINE Vec scaled_exp(Vec x, Vec n, Vec r, float low, float high) {
  const Vec p = polynomial(
      r, {1.3843607e-3f, 8.3741955e-3f, 4.1668005e-2f, 1.6666430e-1f, 4.9999994e-1f, 1.0f, 1.0f});
  // n into the exponent of p, which is ½ to 2: never out of range between low and high.
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
DLBLAS_INLINE Vec silu(Vec x) { return x / (broadcast(1.0f) + exp(zero() - x)); }
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

DLBLAS_INLINE Vec tanh(Vec x) {
  const Vec magnitude = abs(x), square = x * x;
  const Vec large =
      broadcast(1.0f) - broadcast(2.0f) / (exp(magnitude + magnitude) + broadcast(1.0f));
  const Vec p = polynomial(square, {-5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f,
                                    1.33314422036e-1f, -3.33332819422e-1f});
  return choose(less(magnitude, broadcast(0.625f)), fma(p * square, x, x), with_sign(large, x));
}

/// Below 0.92 an odd polynomial, above 1 − e^p(|x|).
DLBLAS_INLINE Vec erf(Vec x) {
  const Vec t = abs(x), s = x * x;
  Vec r = fma(broadcast(-1.72853470e-5f), t, broadcast(3.83197126e-4f));
  const Vec u = fma(broadcast(-3.88396438e-3f), t, broadcast(2.42546219e-2f));
  r = fma(r, s, u);
  r = fma(r, t, broadcast(-1.06777877e-1f));
  r = fma(r, t, broadcast(-6.34846687e-1f));
  r = fma(r, t, broadcast(-1.28717512e-1f));
  r = fma(r, t, zero() - t);
  // From 4 on it is 1, and the polynomial no longer falls.
  r = choose(less(broadcast(4.0f), t), broadcast(-20.0f), r);
  const Vec large = with_sign(broadcast(1.0f) - exp(r), x);
  const Vec p = polynomial(s, {-5.96761703e-4f, 4.99119423e-3f, -2.67681349e-2f, 1.12819925e-1f,
                               -3.76125336e-1f, 1.28379166e-1f});
  return choose(less(broadcast(0.921875f), t), large, fma(p, x, x));
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
