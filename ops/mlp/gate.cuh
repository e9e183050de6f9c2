// The gates of the mlp family on GPUs, in f32 and without branches. Numerics: exp within 2 + |x|
// ulp, erf within 1.5e-7; NaN and infinities follow the formulas.
// Read next: gate_ref.hpp.
#pragma once

#include "device/row/values.cuh"
#include "ops/mlp/gate.hpp"

namespace dlblas::mlp {

/// Abramowitz and Stegun, 7.1.26.
__device__ __forceinline__ float erf_fast(float x) {
  const float z = fabsf(x), t = DeviceMath::reciprocal(1.0f + 0.3275911f * z);
  const float p = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t +
                   0.254829592f) *
                  t;
  return copysignf(1.0f - p * DeviceMath::exp(-z * z), x);
}

template <Gate kGate>
__device__ __forceinline__ float gate_of(float x) {
  if constexpr (kGate == Gate::kSilu) return DeviceMath::silu(x);
  if constexpr (kGate == Gate::kGelu) return 0.5f * x * (1.0f + erf_fast(x * 0.70710678118654752f));
  if constexpr (kGate == Gate::kGeluTanh)
    return x * DeviceMath::sigmoid(x * fmaf(kTanhB, x * x, kTanhA));
  return x < 0 ? 0.0f : x;
}

}  // namespace dlblas::mlp
