// The soft cap of attention on a thread's scores: tanh(x · scale / cap). In: products of q and k.
// Out: tangents, in their place. Numerics: within 6 · 2^-24 of tanh x. Read next:
// attention_wgmma_softmax.cuh.
#pragma once

#include "device/row/values.cuh"

namespace dlblas::attention {

/// The smaller one; NaN if one is.
__device__ __forceinline__ float smaller(float a, float b) {
  float least;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(least) : "f"(a), "f"(b));
  return least;
}

/// tanh x = 1 − 2 / (1 + e^2x). Two tangents share a reciprocal, which takes as long as four
/// multiplications: 1 / a = b / (a·b), where powers are at most 2^60, so that a·b is finite; from
/// 2^25 on tanh is 1.
template <int kCount>
__device__ __forceinline__ void tangents(float (&x)[kCount], float scale, float cap) {
  constexpr float kMost = 0x1.fffffep127f;  // 0 · ∞ is NaN
  const float inner = fminf(fmaxf(2 * kLog2E * scale / cap, -kMost), kMost);
#pragma unroll
  for (int i = 0; i < kCount; i += 2) {
    float a[2];
#pragma unroll
    for (int j = 0; j < 2; ++j)
      a[j] = fmaf(DeviceMath::exp2(smaller(x[i + j] * inner, 60)), -0.5f, -0.5f);
    const float both = DeviceMath::reciprocal(a[0] * a[1]);
    x[i] = fmaf(both, a[1], 1.0f), x[i + 1] = fmaf(both, a[0], 1.0f);
  }
}

}  // namespace dlblas::attention
