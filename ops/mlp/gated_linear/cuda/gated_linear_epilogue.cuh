// Epilogues of gated_linear on GPUs: y = gate(sums[0]) · sums[1], one rounding. For both products
// at once, or for one after the other, where the first stores its sums in f32.
// Read next: device/gemm/epilogue.cuh, ops/mlp/gate.cuh.
#pragma once

#include "device/gemm/epilogue.cuh"
#include "ops/mlp/gate.cuh"
#include "ops/mlp/gated_linear/cuda/gated_linear_gpu_config.hpp"

namespace dlblas::mlp {

template <GatedLinearTraits S>
struct GatedEpilogue {
  using Params = GatedLinearParams;
  static constexpr int kParts = 2;
  static constexpr bool kBranches = true;

  template <int N>
  __device__ static __forceinline__ void store(const Params& p, const GemmAt& at,
                                               const GemmSums<kParts>& sums) {
    store_values<S.stored(), N>(p.y, at,
                                [&](int i) { return gate_of<S.gate>(sums(0, i)) * sums(1, i); });
  }
};

/// Stores the first product's sums, in f32.
template <GatedLinearTraits S>
struct FirstEpilogue {
  using Params = GatedLinearParams;
  static constexpr int kParts = 1;
  static constexpr bool kBranches = false;

  template <int N>
  __device__ static __forceinline__ void store(const Params& p, const GemmAt& at,
                                               const GemmSums<kParts>& sums) {
    constexpr GemmOutTraits kSums{DType::kF32, false, true};
    store_values<kSums, N>({p.sums, p.columns, 1}, at, [&](int i) { return sums(0, i); });
  }
};

/// Combines the second product's sums with those of the first.
template <GatedLinearTraits S>
struct SecondEpilogue {
  using Params = GatedLinearParams;
  static constexpr int kParts = 1;
  static constexpr bool kBranches = true;

  template <int N>
  __device__ static __forceinline__ void store(const Params& p, const GemmAt& at,
                                               const GemmSums<kParts>& sums) {
    const float* const first = p.sums + at.m * p.columns + at.n;
    store_values<S.stored(), N>(p.y, at,
                                [&](int i) { return gate_of<S.gate>(first[i]) * sums(0, i); });
  }
};

}  // namespace dlblas::mlp
