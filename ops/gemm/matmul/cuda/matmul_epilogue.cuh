// The epilogue of matmul on GPUs: bias, activation, one rounding, the store.
// In: f32 sums of neighbouring columns, the call's parameters. Out: out, written inside the matrix
// alone.
// Numerics: erf within 2 units of the last place, exp likewise; NaN and Inf propagate, through relu
// too.  Read next: device/gemm/mma_mainloop.cuh.
#pragma once

#include "device/gemm/epilogue.cuh"
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

/// out = act(sum + bias[n]).
template <MatmulEpilogueTraits S>
struct MatmulEpilogue {
  using Params = MatmulEpilogueParams;
  static constexpr int kParts = 1;
  static constexpr bool kBranches =
      S.activation == Activation::kLeakyRelu || S.activation == Activation::kSilu;

  __device__ static __forceinline__ float value(const Params& p, int64_t n, float sum) {
    constexpr int kBiasAlign = S.aligned ? size_of(S.bias) : 1;
    if constexpr (S.has_bias) {
      float bias[1];
      load_vec<S.bias, 1, kBiasAlign>(p.bias, n * p.bias_col).unpack(bias);
      sum += bias[0];
    }
    return activate<S.activation>(sum);
  }

  template <int N>
  __device__ static __forceinline__ void store(const Params& p, const GemmAt& at,
                                               const GemmSums<kParts>& sums) {
    store_values<S.stored(), N>(p.out, at, [&](int i) { return value(p, at.n + i, sums(0, i)); });
  }
};

}  // namespace dlblas::gemm
