// lora_shrink and lora_expand on CPUs, one token: a dot product per element of y, in f32.
// In: a token's rows and its adapter's weight, of any strides. Out: y, rounded once.
// Numerics: four vectors of sums, added in a fixed order.
// Compiled once per instruction set.  Read next: lora_impl.cpp.
#pragma once

#include "cpu/gemm/epilogue.hpp"
#include "ops/gemm/lora/lora_cpu_config.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

using gemm::LoraToken;

/// Columns [0, n) of row i, widened to f32; `to` has room for whole vectors.
DLBLAS_OUTLINE void widen_row(const GemmMatrix& m, int64_t i, int64_t n, float* to) {
  for (int64_t c = 0; c < n; c += kWidth)
    store<DType::kF32>(to + c, load_columns(m, i, c, smaller(kWidth, n - c)));
}

template <DType E>
DLBLAS_INLINE float dot(const float* x, const char* weight, int64_t depth) {
  Vec sums[4] = {zero(), zero(), zero(), zero()};
  int64_t k = 0;
  for (; k + 4 * kWidth <= depth; k += 4 * kWidth) {
    DLBLAS_UNROLL
    for (int v = 0; v < 4; ++v)
      sums[v] = fma(load<DType::kF32>(x + k + v * kWidth), load<E>(at<E>(weight, k + v * kWidth)),
                    sums[v]);
  }
  for (int v = 0; k < depth; k += kWidth, ++v) {
    const int64_t left = smaller(kWidth, depth - k);
    sums[v] =
        fma(load_first<DType::kF32>(x + k, left), load_first<E>(at<E>(weight, k), left), sums[v]);
  }
  return reduce_add(add(add(sums[0], sums[1]), add(sums[2], sums[3])));
}

constexpr int64_t kOfAStrip = 64;  // columns of y

/// Columns [j, j + n) of y, from rows of E that are contiguous along K.
template <DType E>
DLBLAS_OUTLINE void dots(const LoraToken& p, const float* x, int64_t j, int64_t n, float* to) {
  for (int64_t c = 0; c < n; ++c) to[c] = dot<E>(x, address(p.weight, j + c, 0), p.depth);
}

void lora_row(const LoraToken& p, float* scratch) {
  float* const x = scratch;
  float* const weight = scratch + (p.depth + kWidth - 1) / kWidth * kWidth;
  widen_row(p.x, 0, p.depth, x);
  float sums[kOfAStrip + kPackSlack];
  for (int64_t c = 0; c < kPackSlack; ++c) sums[kOfAStrip + c] = 0;
  for (int64_t j = 0; j < p.width; j += kOfAStrip) {
    const int64_t n = smaller(kOfAStrip, p.width - j);
    if (p.weight.col != 1) {
      for (int64_t c = 0; c < n; ++c) {
        widen_row(p.weight, j + c, p.depth, weight);
        sums[c] = dot<DType::kF32>(x, reinterpret_cast<const char*>(weight), p.depth);
      }
    } else if (p.weight.type == DType::kF32) {
      dots<DType::kF32>(p, x, j, n, sums);
    } else if (p.weight.type == DType::kF16) {
      dots<DType::kF16>(p, x, j, n, sums);
    } else {
      dots<DType::kBF16>(p, x, j, n, sums);
    }
    store_values(
        p.y, 0, j, n, [&](int64_t c, int64_t lanes) __attribute__((always_inline)) {
          return fma(broadcast(p.scale), load_first<DType::kF32>(sums + c, lanes),
                     load_columns(p.y, 0, j + c, lanes));
        });
  }
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
