// Activations of matmul's sums on GPUs, in f32, without branches and in few registers.
// Numerics: exp within 2 + |x| ulp, erf within 1.5e-7, both as far as they weigh in a result of x's
// size; NaN and Inf propagate, through relu too.  Read next: matmul_epilogue.cuh,
// matmul_wgmma.cuh.
#pragma once

#include "device/types.hpp"
#include "ops/gemm/activation.hpp"

namespace dlblas::gemm {

/// The hardware's e^x and 1 / x.
__device__ __forceinline__ float exp_fast(float x) {
  float y = 1.44269504088896341f * x;
  asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(y));
  return y;
}
__device__ __forceinline__ float reciprocal_fast(float x) {
  asm("rcp.approx.ftz.f32 %0, %0;" : "+f"(x));
  return x;
}

/// Abramowitz and Stegun, 7.1.26.
__device__ __forceinline__ float erf_fast(float x) {
  const float z = fabsf(x), t = reciprocal_fast(1.0f + 0.3275911f * z);
  const float p = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t +
                   0.254829592f) *
                  t;
  return copysignf(1.0f - p * exp_fast(-z * z), x);
}

template <Activation kActivation>
__device__ __forceinline__ float activate(float x) {
  if constexpr (kActivation == Activation::kRelu) return x < 0 ? 0.0f : x;
  if constexpr (kActivation == Activation::kLeakyRelu) return x < 0 ? 0.01f * x : x;
  if constexpr (kActivation == Activation::kGelu) {
    return 0.5f * x * (1.0f + erf_fast(x * 0.70710678118654752f));
  }
  if constexpr (kActivation == Activation::kSilu) return x * reciprocal_fast(1.0f + exp_fast(-x));
  return x;
}

}  // namespace dlblas::gemm
