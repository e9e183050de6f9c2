// What every GPU matmul does with a finished sum: bias, activation, one rounding, the store; and
// the f32 partial sums of split K.
// In: eight f32 sums of neighbouring columns (or one), the call's parameters. Out: out, written
// inside the matrix alone.
// Numerics: erf within 2 units of the last place, exp likewise; NaN and Inf propagate, through relu
// too.  Read next: matmul_mma.cuh.
#pragma once

#include "device/vec.cuh"
#include "ops/gemm/matmul/cuda/matmul_gpu_config.hpp"

namespace dlblas::gemm {

template <Activation kActivation>
__device__ __forceinline__ float activate(float x) {
  if constexpr (kActivation == Activation::kRelu) return x < 0 ? 0.0f : x;
  if constexpr (kActivation == Activation::kLeakyRelu) return x < 0 ? 0.01f * x : x;
  if constexpr (kActivation == Activation::kGelu) {
    return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
  }
  if constexpr (kActivation == Activation::kSilu) return x / (1.0f + expf(-x));
  return x;
}

/// act(sum + bias[n]).
template <MatmulTraits S>
__device__ __forceinline__ float finish(const MatmulGpuParams& p, int64_t n, float sum) {
  constexpr int kBiasAlign = S.aligned ? size_of(S.bias) : 1;
  if constexpr (S.has_bias) {
    float bias[1];
    load_vec<S.bias, 1, kBiasAlign>(p.bias, n * p.bias_col).unpack(bias);
    sum += bias[0];
  }
  return activate<S.activation>(sum);
}

template <MatmulTraits S>
__device__ __forceinline__ void store_one(const MatmulGpuParams& p, int64_t m, int64_t n,
                                          float sum) {
  constexpr int kAlign = S.aligned ? size_of(S.out) : 1;
  Vec<S.out, 1> v;
  v.pack({finish<S>(p, n, sum)});
  store_vec<S.out, 1, kAlign>(p.out, m * p.out_row + n * p.out_col, v);
}

/// Columns n … n + N - 1 of row m, as far as they exist. n is a multiple of N, N is 4 or 8.
template <MatmulTraits S, int N>
__device__ __forceinline__ void store_columns(const MatmulGpuParams& p, int64_t m, int64_t n,
                                              const float* sums) {
  if (S.out_vector && n + N <= p.n) {
    float y[N];
#pragma unroll
    for (int i = 0; i < N; ++i) y[i] = finish<S>(p, n + i, sums[i]);
    Vec<S.out, N> v;
    v.pack(y);
    store_vec<S.out, N>(p.out, m * p.out_row + n, v);
    return;
  }
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (n + i < p.n) store_one<S>(p, m, n + i, sums[i]);
  }
}

/// Where part `part` of K keeps its sum of (m, n). Rows are padded to eight columns: 16-byte
/// aligned.
__device__ __forceinline__ int64_t partial_offset(const MatmulGpuParams& p, int64_t part, int64_t m,
                                                  int64_t n) {
  return (part * p.m + m) * ((p.n + 7) / 8 * 8) + n;
}

__device__ __forceinline__ void store_partial(const MatmulGpuParams& p, int64_t part, int64_t m,
                                              int64_t n, const float* sums) {
  Vec<FloatType::kF32, 8> v;
#pragma unroll
  for (int i = 0; i < 8; ++i) v.words[i] = bits_of_float(sums[i]);
  store_vec<FloatType::kF32, 8>(p.partial, partial_offset(p, part, m, n), v);
}

__device__ __forceinline__ void add_partial(const MatmulGpuParams& p, int64_t part, int64_t m,
                                            int64_t n, float (&sums)[8]) {
  float y[8];
  load_vec<FloatType::kF32, 8>(p.partial, partial_offset(p, part, m, n)).unpack(y);
#pragma unroll
  for (int i = 0; i < 8; ++i) sums[i] += y[i];
}

}  // namespace dlblas::gemm
