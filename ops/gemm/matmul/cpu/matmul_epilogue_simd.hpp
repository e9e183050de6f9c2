// The epilogue of a matmul row: bias, activation, one rounding, store.
// In: f32 sums of one row's columns. Out: elements of the result, any column stride.
// Numerics: exp to about 2 ulp, erf to 1.5e-7 absolute; NaN and infinities follow the formulas.
// Compiled once per instruction set, for both forms.  Read next: cpu/gemm/epilogue.hpp.
#pragma once

#include "cpu/gemm/epilogue.hpp"
#include "ops/gemm/matmul/matmul_config.hpp"

namespace dlblas::DLBLAS_ISA {
namespace {

using gemm::Activation;
using gemm::MatmulParams;
using Ints = int32_t __attribute__((vector_size(sizeof(Vec))));

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
  // Two factors, since 2^128 itself is not an f32.
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

/// NaN passes through every activation: comparisons with it are false and keep x.
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

struct MatmulEpilogue {
  using Params = MatmulParams;
  static constexpr int kParts = 1;

  /// Where nothing follows the sums, they are the f32 result itself.
  static const GemmMatrix* plain(const Params& p) {
    const bool is_plain = p.out.type == DType::kF32 && p.out.col == 1 && !p.bias.data &&
                          p.activation == Activation::kNone;
    return is_plain ? &p.out : nullptr;
  }

  static void store(const Params& p, int64_t i, int64_t j, int64_t n,
                    const float* const (&sums)[kParts]) {
    const float* const from = sums[0];
    store_values(
        p.out, i, j, n, [&](int64_t c, int64_t lanes) __attribute__((always_inline)) {
          Vec x = load_first<DType::kF32>(from + c, lanes);
          if (p.bias.data) x = add(x, load_columns(p.bias, 0, j + c, lanes));
          return activate(x, p.activation);
        });
  }
};

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
