// The online softmax over accumulators of mma_16x8x16: a thread holds columns 2q, 2q + 1 of every
// eight keys of two rows, g and g + 8 (device/mma.cuh). Scores come in unscaled, base-2 logits
// after `factor`; they leave as numerators, and pack_numerators turns them into the A operand of
// the product with values. A row without any unmasked key has a maximum of −inf and a sum of 0.
// Numerics: f32; exponentials are the hardware's, to 2 ulp.
// Read next: ops/attention/cuda/attention_mma.cuh.
#pragma once

#include "device/attention/exponent.cuh"
#include "device/mma.cuh"
#include "device/numeric.cuh"
#include "device/row/values.cuh"

namespace dlblas {

__device__ __forceinline__ float minus_infinity() { return __int_as_float(0xff800000); }

struct OnlineSoftmax {
  float most[2] = {minus_infinity(), minus_infinity()};  // of scores before `factor`
  float sum[2] = {0, 0};                                 // this thread's columns'

  /// Adds a block of kTiles · 8 keys. `rescale`: the factor for results of earlier blocks.
  template <int kTiles>
  __device__ __forceinline__ void meet(float (&s)[kTiles][4], float factor, float (&rescale)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float peak = most[r];
#pragma unroll
      for (int i = 0; i < kTiles; ++i) peak = fmaxf(peak, fmaxf(s[i][2 * r], s[i][2 * r + 1]));
      peak = fmaxf(peak, __shfl_xor_sync(0xffffffffu, peak, 1));
      peak = fmaxf(peak, __shfl_xor_sync(0xffffffffu, peak, 2));
      const ExponentBase by = exponent_base(peak, factor);
      if (by.far) {
#pragma unroll
        for (int i = 0; i < kTiles; ++i) s[i][2 * r] -= peak, s[i][2 * r + 1] -= peak;
      }
      const float base = by.base;
      rescale[r] = DeviceMath::exp2(rescale_exponent(by, most[r], peak, factor));
      most[r] = peak;
      float part[2] = {0, 0};
#pragma unroll
      for (int i = 0; i < kTiles; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          float& x = s[i][2 * r + j];
          x = DeviceMath::exp2(fmaf(x, factor, -base));
          part[j] += x;
        }
      sum[r] = fmaf(sum[r], rescale[r], part[0] + part[1]);
    }
  }
  /// Inverses of the rows' total sums, and natural logarithms of Σ e^s.
  __device__ __forceinline__ void finish(float factor, float (&inverse)[2], float (&lse)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float all = sum[r];
      all += __shfl_xor_sync(0xffffffffu, all, 1);
      all += __shfl_xor_sync(0xffffffffu, all, 2);
      inverse[r] = all == 0 ? 0.0f : 1 / all;
      lse[r] =
          all == 0 ? minus_infinity() : log2_of_sum(most[r], factor, log2f(all)) * 0.693147181f;
    }
  }
};

/// Numerators of keys 16·i … 16·i + 15, rounded: the A operand of mma_16x8x16.
template <DType T, int kTiles>
__device__ __forceinline__ void pack_numerators(uint32_t (&a)[4], const float (&s)[kTiles][4],
                                                int i) {
#pragma unroll
  for (int j = 0; j < 4; ++j)
    a[j] = pack_pair<T>(s[2 * i + j / 2][j % 2 * 2], s[2 * i + j / 2][j % 2 * 2 + 1]);
}

/// Exchanges four lanes' words of four adjacent groups of 8 columns: each lane gets one's 16 bytes.
__device__ __forceinline__ void gather_quad(uint32_t (&w)[4]) {
  const bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
  uint32_t a = __shfl_xor_sync(0xffffffffu, odd ? w[0] : w[1], 1);
  uint32_t b = __shfl_xor_sync(0xffffffffu, odd ? w[2] : w[3], 1);
  w[0] = odd ? a : w[0], w[2] = odd ? b : w[2], w[1] = odd ? w[1] : a, w[3] = odd ? w[3] : b;
  a = __shfl_xor_sync(0xffffffffu, high ? w[0] : w[2], 2);
  b = __shfl_xor_sync(0xffffffffu, high ? w[1] : w[3], 2);
  w[0] = high ? a : w[0], w[1] = high ? b : w[1], w[2] = high ? w[2] : a, w[3] = high ? w[3] : b;
}

}  // namespace dlblas
