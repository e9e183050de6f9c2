// Keeps long f32 sums accurate: every `span` terms a kernel adds its f32 sums to carried ones and
// restarts from zero. A carried sum is a pair, the sum and the error of its roundings (Knuth's
// TwoSum), which the next addition includes, so the result has the error of one span, however many
// follow. In: kCount sums in registers of each of kThreads threads. Out: the totals, in the same
// registers. Shared memory: 8 bytes per sum; each thread uses only its own part, so there is no
// barrier. Numerics: Inf and NaN as in one f32 chain. Read next: device/gemm/mma_mainloop.cuh.
#pragma once

#include "device/types.hpp"

namespace dlblas {

struct Carried {
  float sum, error;
};

/// sum + error += x; the error of this addition becomes the new one. An infinite sum has none.
__device__ __forceinline__ Carried carry(Carried c, float x) {
  x += c.error;
  const float sum = c.sum + x, added = sum - c.sum;
  const float error = (c.sum - (sum - added)) + (x - added);
  return {sum, error == error ? error : 0};
}
__device__ __forceinline__ float carried_total(Carried c) { return c.sum + c.error; }

template <int kCount, int kThreads>
class CarriedSums {
 public:
  /// Zeros. `shared`: 8-byte aligned, exclusive to these threads. `thread`: 0 … kThreads - 1.
  __device__ __forceinline__ CarriedSums(void* shared, int thread)
      : mine_(static_cast<float2*>(shared) + thread) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) mine_[i * kThreads] = make_float2(0, 0);
  }

  /// Adds the sums of a span to the carried ones and clears them.
  __device__ __forceinline__ void add(float* sums) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float2 before = mine_[i * kThreads];
      const Carried c = carry({before.x, before.y}, sums[i]);
      mine_[i * kThreads] = make_float2(c.sum, c.error);
      sums[i] = 0;
      keep_order(i);
    }
  }

  /// Adds the sums of the last span and replaces them by the totals.
  __device__ __forceinline__ void finish(float* sums) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float2 before = mine_[i * kThreads];
      sums[i] = carried_total(carry({before.x, before.y}, sums[i]));
      keep_order(i);
    }
  }

 private:
  /// Loads issued below this point stay below: issued all at once, they would need more registers
  /// than large tiles leave.
  __device__ static __forceinline__ void keep_order(int i) {
    if (i % 4 == 3) asm volatile("" ::: "memory");
  }

  float2* mine_;
};

}  // namespace dlblas
