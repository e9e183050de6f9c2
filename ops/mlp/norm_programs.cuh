// What follows a product of normalised rows, for WGMMA (programs) and for few rows (epilogues): y =
// sum, or gate(sum₀) · sum₁, one rounding. Read next: device/gemm/wgmma_norm.cuh,
// device/gemm/gemv_norm.cuh.
#pragma once

#include "device/gemm/gemv_norm.cuh"
#include "device/gemm/wgmma_norm.cuh"
#include "ops/mlp/gate.cuh"
#include "ops/mlp/norm_config.hpp"

namespace dlblas::mlp {

template <NormedTraits S>
struct NormedProgram : GemmProgram {
  static constexpr DType kOut = S.out, kGain = S.gain;
  template <class A>
  __device__ static __forceinline__ float value(const float (&sums)[1], const A&,
                                                const GemmWgmmaCall&, int, int, int) {
    return sums[0];
  }
};

template <NormedTraits S>
struct NormedGatedProgram : GemmProgram {
  static constexpr int kParts = 2;
  static constexpr DType kOut = S.out, kGain = S.gain;
  template <class A>
  __device__ static __forceinline__ float value(const float (&sums)[2], const A&,
                                                const GemmWgmmaCall&, int, int, int) {
    return gate_of<S.gate>(sums[0]) * sums[1];
  }
};

template <NormedTraits S>
struct NormedEpilogue {
  using Params = GemmOut;
  static constexpr int kParts = 1;
  static constexpr bool kBranches = false;
  static constexpr DType kGain = S.gain;
  template <int N>
  __device__ static __forceinline__ void store(const Params& y, const GemmAt& at,
                                               const GemmSums<1>& sums) {
    store_values<S.stored(), N>(y, at, [&](int i) { return sums(0, i); });
  }
};

template <NormedTraits S>
struct NormedGatedEpilogue {
  using Params = GemmOut;
  static constexpr int kParts = 2;
  static constexpr bool kBranches = true;
  static constexpr DType kGain = S.gain;
  template <int N>
  __device__ static __forceinline__ void store(const Params& y, const GemmAt& at,
                                               const GemmSums<2>& sums) {
    store_values<S.stored(), N>(y, at,
                                [&](int i) { return gate_of<S.gate>(sums(0, i)) * sums(1, i); });
  }
};

}  // namespace dlblas::mlp
