// The end of every matmul row: bias, activation, one rounding, store.
// In: f32 sums of one row's columns. Out: elements of the result, any column stride.
// Numerics: exp to about 2 ulp, erf to 1.5e-7 absolute; NaN and infinities as the formulas give.
// Compiled once per instruction set, for both forms.  Read next: matmul_row_simd.hpp.
#pragma once

#include "ops/gemm/matmul/cpu/matmul_pack_simd.hpp"

namespace dlblas::DLBLAS_ISA {
namespace {

using gemm::Activation;
using gemm::MatmulParams;
using Ints = int32_t __attribute__((vector_size(sizeof(Vec))));

/// total + error += v: the error of the addition, which is an f32, goes to `error`.
DLBLAS_INLINE void add_exactly(Vec& total, Vec& error, Vec v) {
  const Vec sum = add(total, v);
  const Vec of_v = sum - total;
  error = add(error, add(total - (sum - of_v), v - of_v));
  total = sum;
}

/// Once infinite or NaN a total stays what it is: the errors of such additions mean nothing.
DLBLAS_INLINE Vec total_of(Vec total, Vec error) {
  return total - total == zero() ? add(total, error) : total;
}

/// e^x: x = n·ln2 + r, a degree-6 polynomial in r, n into the exponent. Saturates to 0 and inf; a
/// NaN gives some value (callers multiply by x, which brings the NaN back).
DLBLAS_INLINE Vec exponential(Vec x) {
  const Vec high = broadcast(88.72f), low = broadcast(-87.33f);
  Vec y = x < high ? x : high;
  y = y > low ? y : low;
  const Vec magic = broadcast(12582912.0f);  // 1.5 · 2^23: adding it rounds to the nearest integer
  const Vec n = fma(y, broadcast(1.44269504f), magic) - magic;
  Vec r = fma(n, broadcast(-0.693359375f), y);
  r = fma(n, broadcast(2.12194440e-4f), r);
  Vec p = broadcast(1.0f / 720);
  p = fma(p, r, broadcast(1.0f / 120));
  p = fma(p, r, broadcast(1.0f / 24));
  p = fma(p, r, broadcast(1.0f / 6));
  p = fma(p, r, broadcast(0.5f));
  p = fma(fma(p, r, broadcast(1.0f)), r, broadcast(1.0f));
  // Two factors: 2^128 itself is no f32.
  const Ints whole = __builtin_convertvector(n, Ints);
  const Ints half = whole >> 1;
  const Vec scale_a = (Vec)((half + 127) << 23), scale_b = (Vec)((whole - half + 127) << 23);
  const Vec e = p * scale_a * scale_b;
  return x > high ? broadcast(__builtin_inff()) : (x < low ? zero() : e);
}

/// erf by Abramowitz and Stegun 7.1.26; exactly ±1 for large |x|.
DLBLAS_INLINE Vec error_function(Vec x) {
  const Vec magnitude = x < zero() ? -x : x;
  const Vec t = broadcast(1.0f) / fma(broadcast(0.3275911f), magnitude, broadcast(1.0f));
  Vec p = broadcast(1.061405429f);
  p = fma(p, t, broadcast(-1.453152027f));
  p = fma(p, t, broadcast(1.421413741f));
  p = fma(p, t, broadcast(-0.284496736f));
  p = fma(p, t, broadcast(0.254829592f));
  const Vec y = broadcast(1.0f) - p * t * exponential(-(x * x));
  return x < zero() ? -y : y;
}

/// NaN goes through every activation: comparisons with it are false and keep x.
DLBLAS_INLINE Vec activate(Vec x, Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return x < zero() ? zero() : x;
    case Activation::kLeakyRelu:
      return x < zero() ? x * broadcast(0.01f) : x;
    case Activation::kGelu:
      return broadcast(0.5f) * x * (broadcast(1.0f) + error_function(x * broadcast(0.70710678f)));
    case Activation::kSilu:
      return x / (broadcast(1.0f) + exponential(-x));
    default:
      return x;
  }
}

/// The first n values of v as elements `col` apart.
template <Element E>
DLBLAS_INLINE void store_strided(void* p, int64_t col, Vec v, int n) {
  if (col == 1) return n == kWidth ? store<E>(p, v) : store_partial<E>(p, v, n);
  char lanes[kWidth * kElementBytes<E>];
  store<E>(lanes, v);
  for (int i = 0; i < n; ++i) {
    __builtin_memcpy(at<E>(p, i * col), lanes + i * kElementBytes<E>, kElementBytes<E>);
  }
}

DLBLAS_INLINE Vec load_bias(const Matrix& bias, int64_t j, int64_t n) {
  if (bias.col == 1) {
    const char* p = address(bias, 0, j);
    if (bias.type == Element::kF32) return load_first<Element::kF32>(p, n);
    if (bias.type == Element::kF16) return load_first<Element::kF16>(p, n);
    return load_first<Element::kBF16>(p, n);
  }
  float lanes[kWidth + gemm::kPackSlack];
  pack(bias.type, {address(bias, 0, j), bias.col, 0}, n, 1, kWidth, lanes);
  return load<Element::kF32>(lanes);
}

/// out[i, j … j + n) from f32 sums.
template <Element E>
void finish_elements(const MatmulParams& p, int64_t i, int64_t j, int64_t n, const float* sums) {
  for (int64_t v = 0; v < n; v += kWidth) {
    const int64_t lanes = smaller(kWidth, n - v);
    Vec x = load_first<Element::kF32>(sums + v, lanes);
    if (p.bias.data) x = add(x, load_bias(p.bias, j + v, lanes));
    store_strided<E>(address(p.out, i, j + v), p.out.col, activate(x, p.activation),
                     static_cast<int>(lanes));
  }
}

void finish_row(const MatmulParams& p, int64_t i, int64_t j, int64_t n, const float* sums) {
  if (p.out.type == Element::kF32) return finish_elements<Element::kF32>(p, i, j, n, sums);
  if (p.out.type == Element::kF16) return finish_elements<Element::kF16>(p, i, j, n, sums);
  finish_elements<Element::kBF16>(p, i, j, n, sums);
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
