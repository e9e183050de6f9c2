// The epilogue of matmul on GPUs: bias, activation, one rounding, the store.
// In: f32 sums of neighbouring columns, the call's parameters. Out: the result, written only inside
// the matrix.
// Numerics: those of matmul_activate.cuh.  Read next: device/gemm/mma_mainloop.cuh.
#pragma once

#include "device/gemm/epilogue.cuh"
#include "ops/gemm/matmul/cuda/matmul_activate.cuh"
#include "ops/gemm/matmul/cuda/matmul_gpu_config.hpp"

namespace dlblas::gemm {

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
