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

/// Stores the sums of a tile as they are.
template <DType E>
void store_sums(const GemmMatrix& out, const GemmBlock& of, GemmTile tile, const float* sums) {
  char* to = address(out, of.i0, of.j0);
  const int64_t n = of.j1 - of.j0;
  for (int64_t i = of.i0; i < of.i1; ++i) {
    int64_t c = 0;
    for (; c + kWidth <= n; c += kWidth) store<E>(at<E>(to, c), load<DType::kF32>(sums + c));
    if (c < n) store_partial<E>(at<E>(to, c), load<DType::kF32>(sums + c), static_cast<int>(n - c));
    sums += tile.n, to += out.row * kElementBytes<E>;
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

  /// Of blocks, whose tiles are small: where nothing follows the sums, the type is asked for once.
  static void store_tile(const Params& p, const GemmBlock& of, GemmTile tile, const float* sums) {
    const int64_t n = of.j1 - of.j0;
    if (p.out.col == 1 && !p.bias.data && p.activation == Activation::kNone) {
      if (p.out.type == DType::kF32) return store_sums<DType::kF32>(p.out, of, tile, sums);
      if (p.out.type == DType::kBF16) return store_sums<DType::kBF16>(p.out, of, tile, sums);
    }
    for (int64_t i = of.i0; i < of.i1; ++i, sums += tile.n) {
      const float* const row[kParts] = {sums};
      store(p, i, of.j0, n, row);
    }
  }
};

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
