// Functions of one SIMD vector of f32: comparison and selection, division, minimum and maximum, exp,
// log, tanh, erf and what follows from them. Compiled once per instruction set, as cpu/simd.hpp.
// Numerics, against f64 (tests/cpp/test_cpu_math.cpp): exp, exp2, log, sigmoid and erf within 4 units
// of the last place, tanh within 8; results of exp below 2^-125 are 0; NaN stays NaN, infinities as
// the formulas give. Read next: cpu/row/values.hpp.
#pragma once

#include "cpu/simd.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

/// All ones in lanes where a comparison holds; no lane where an operand is NaN (but in !=).
using Mask = int32_t __attribute__((vector_size(sizeof(Vec))));

DLBLAS_INLINE Vec sub(Vec a, Vec b) { return a - b; }
DLBLAS_INLINE Vec div(Vec a, Vec b) { return a / b; }
DLBLAS_INLINE Mask less(Vec a, Vec b) { return (Mask)(a < b); }
DLBLAS_INLINE Mask equal(Vec a, Vec b) { return (Mask)(a == b); }
DLBLAS_INLINE Mask is_nan(Vec a) { return (Mask)(a != a); }
DLBLAS_INLINE Vec choose(Mask mask, Vec yes, Vec no) { return mask ? yes : no; }
/// Are any bits of the mask set?
DLBLAS_INLINE bool any(Mask mask) {
#if defined(__AVX512F__)
  return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(__AVX2__)
  return _mm256_movemask_ps((__m256)mask) != 0;
#else
  return (mask[0] | mask[1] | mask[2] | mask[3]) != 0;
#endif
}

/// Plain: of NaN and a number, either may come.
DLBLAS_INLINE Vec max_number(Vec a, Vec b) { return a > b ? a : b; }
DLBLAS_INLINE Vec min_number(Vec a, Vec b) { return a < b ? a : b; }
/// NaN wins.
DLBLAS_INLINE Vec max(Vec a, Vec b) { return choose(is_nan(a), a, max_number(a, b)); }
DLBLAS_INLINE Vec min(Vec a, Vec b) { return choose(is_nan(a), a, min_number(a, b)); }
DLBLAS_INLINE Vec abs(Vec a) { return (Vec)((Mask)a & 0x7fffffff); }
/// |magnitude| with the sign of `sign`.
DLBLAS_INLINE Vec with_sign(Vec magnitude, Vec sign) {
  return (Vec)(((Mask)magnitude & 0x7fffffff) | ((Mask)sign & ~0x7fffffff));
}

/// c[0] x^(n−1) + … + c[n−1].
template <int kTerms>
DLBLAS_INLINE Vec polynomial(Vec x, const float (&c)[kTerms]) {
  Vec p = broadcast(c[0]);
  for (int i = 1; i < kTerms; ++i) p = fma(p, x, broadcast(c[i]));
  return p;
}

/// p · 2^n for a whole n in [−125, 128]; two factors, since 2^128 itself is no f32.
DLBLAS_INLINE Vec scale_by_power(Vec p, Vec n) {
  const Mask exponent = __builtin_convertvector(n, Mask) + 126;
  return p * (Vec)(exponent << 23) * broadcast(2.0f);
}
/// The nearest whole number; |x| < 2^22.
DLBLAS_INLINE Vec round_to_whole(Vec x) {
  const Vec magic = broadcast(12582912.0f);  // 1.5 · 2^23
  return (x + magic) - magic;
}

/// e^x = 2^n · e^r, |r| ≤ ln 2 / 2; coefficients of Cephes' expf.
DLBLAS_INLINE Vec exp(Vec x) {
  const Vec high = broadcast(88.72284f), low = broadcast(-86.64f);
  Vec y = choose(less(high, x), high, x);
  y = choose(less(y, low), low, y);
  const Vec n = round_to_whole(y * broadcast(1.44269504f));
  Vec r = fma(n, broadcast(-0.693359375f), y);
  r = fma(n, broadcast(2.12194440e-4f), r);
  const Vec p = polynomial(r, {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                               4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f});
  const Vec e = scale_by_power(fma(p * r, r, r) + broadcast(1.0f), n);
  return choose(less(high, x), broadcast(__builtin_inff()), choose(less(x, low), zero(), e));
}
DLBLAS_INLINE Vec exp2(Vec x) {
  const Vec high = broadcast(127.99999f), low = broadcast(-125.0f);
  Vec y = choose(less(high, x), high, x);
  y = choose(less(y, low), low, y);
  const Vec n = round_to_whole(y);
  const Vec r = (y - n) * broadcast(0.693147181f);
  const Vec p = polynomial(r, {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                               4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f});
  const Vec e = scale_by_power(fma(p * r, r, r) + broadcast(1.0f), n);
  return choose(less(high, x), broadcast(__builtin_inff()), choose(less(x, low), zero(), e));
}

/// log x = n · ln 2 + log m, m in [√½, √2); coefficients of Cephes' logf.
DLBLAS_INLINE Vec log(Vec x) {
  const Mask small = less(x, broadcast(0x1p-126f));
  const Vec scaled = choose(small, x * broadcast(0x1p23f), x);
  const Mask bits = (Mask)scaled;
  Mask n = (bits >> 23) - 126 - (small & 23);
  Vec m = (Vec)((bits & 0x7fffff) | 0x3f000000);  // [½, 1)
  const Mask below = less(m, broadcast(0.70710678f));
  n += below;  // −1 where it holds
  m = choose(below, m + m, m) - broadcast(1.0f);
  const Vec whole = __builtin_convertvector(n, Vec), square = m * m;
  Vec p = polynomial(m, {7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f,
                         1.4249322787e-1f, -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f,
                         3.3333331174e-1f});
  p = p * m * square;
  p = fma(whole, broadcast(-2.12194440e-4f), p);
  p = fma(square, broadcast(-0.5f), p);
  Vec result = fma(whole, broadcast(0.693359375f), m + p);
  result = choose(less(x, zero()) | is_nan(x), broadcast(__builtin_nanf("")), result);
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
