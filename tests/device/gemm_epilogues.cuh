// Epilogues beside matmul's, on the same mainloops: out = alpha[m] · beta[n] · sum + residual[m,
// n], and out = silu(a·b₀) · (a·b₁), in bf16. Driven by tests/cpp/test_gemm_epilogues.cpp.
#pragma once

#include "device/gemm/fma_mainloop.cuh"
#include "device/gemm/mma_mainloop.cuh"
#include "device/gemm/rows_mainloop.cuh"
#include "tests/device/gemm_epilogue_params.hpp"

namespace dlblas::test {

template <bool kVector>
struct ScaledResidual {
  using Params = ScaledResidualParams;
  static constexpr int kParts = 1;
  static constexpr bool kBranches = false;

  template <int N>
  __device__ static __forceinline__ void store(const Params& p, const GemmAt& at,
                                               const GemmSums<kParts>& sums) {
    const float alpha = p.alpha[at.m];
    constexpr GemmOutTraits kOut{DType::kBF16, kVector, true};
    store_values<kOut, N>(p.out, at, [&](int i) {
      float residual[1];
      const int64_t n = at.n + i;
      load_vec<DType::kBF16, 1>(p.residual.data, at.m * p.residual.row + n * p.residual.col)
          .unpack(residual);
      return alpha * p.beta[n] * sums(0, i) + residual[0];
    });
  }
};

template <bool kVector>
struct Gated {
  using Params = GatedParams;
  static constexpr int kParts = 2;
  static constexpr bool kBranches = true;

  template <int N>
  __device__ static __forceinline__ void store(const Params& p, const GemmAt& at,
                                               const GemmSums<kParts>& sums) {
    constexpr GemmOutTraits kOut{DType::kBF16, kVector, true};
    store_values<kOut, N>(p.out, at, [&](int i) {
      const float gate = sums(0, i);
      return gate / (1.0f + expf(-gate)) * sums(1, i);
    });
  }
};

}  // namespace dlblas::test
