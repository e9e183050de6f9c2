// What kernels that walk keys in chunks share: the threads of a row, the softmax over chunks, and
// the sum of o over a block's threads. A block computes one head of a row of q, and some columns of
// o. In: scores of a chunk. Out: o and lse.  Read next: mla_decode_lse/mla_rows.cuh,
// paged_attention_lse/paged_rows.cuh.
#pragma once

#include "device/reduce.cuh"
#include "device/row/values.cuh"
#include "device/vec.cuh"

namespace dlblas::attention {

/// Threads that share a row of `columns`, `access` columns at a time each: a power of 2.
constexpr int chunk_lanes(int columns, int access, int most) {
  int lanes = 1;
  while (lanes < most && lanes < (columns + access - 1) / access) lanes *= 2;
  return lanes;
}

/// Loads kCount elements as f32: contiguous and aligned, or one.
template <DType T, int kCount>
__device__ inline void load_floats(float (&out)[kCount], const void* base, int64_t offset) {
  const Vec<T, kCount> v = load_vec<T, kCount, kCount * size_of(T)>(base, offset);
  if constexpr (is_f8(T)) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) out[i] = unpack_one<T>(v.words[i / 4] >> (8 * (i % 4)));
  } else {
    v.unpack(out);
  }
}

/// The softmax over all chunks so far, in powers of 2.
struct ChunkSoftmax {
  float most = -DeviceMath::infinity(), sum = 0;

  /// Turns scores, already multiplied by log2 e, into powers of 2. Returns the factor that rescales
  /// the sums of earlier chunks. All threads call it: every warp computes the same from all scores.
  template <int kChunk>
  __device__ float add(const float (&scores)[kChunk], float (&powers)[kChunk]) {
    const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp;
    float s[kChunk / kWarp], largest = most, total = 0;
#pragma unroll
    for (int i = 0; i < kChunk / kWarp; ++i) {
      s[i] = scores[i * kWarp + lane];
      largest = fmaxf(largest, s[i]);
    }
#pragma unroll
    for (int d = kWarp / 2; d > 0; d /= 2)
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, d));
    const float base = largest == -DeviceMath::infinity() ? 0 : largest;
#pragma unroll
    for (int i = 0; i < kChunk / kWarp; ++i) {
      s[i] = DeviceMath::exp2(s[i] - base);
      if (thread < kWarp) powers[i * kWarp + lane] = s[i];
      total += s[i];
    }
    const float scale = DeviceMath::exp2(most - base);  // of nothing 0
    sum = fmaf(sum, scale, warp_sum<kWarp>(total));
    most = largest;
    return scale;
  }
  /// The natural logarithm of the sum; −∞ if there were no keys.
  __device__ float lse() const {
    return sum == 0 ? -DeviceMath::infinity() : (most + ::log2f(sum)) * 0.69314718f;
  }
};

/// Stores kAccess columns of o: the sum of what the kParts threads of these columns left in `sums`,
/// times `factor`. The first of these threads calls it.
template <DType T, int kParts, int kLanes, int kAccess>
__device__ inline void store_parts(const float* sums, float factor, void* o, int64_t at,
                                   int64_t step) {
#pragma unroll
  for (int i = 0; i < kAccess; ++i) {
    float value = 0;
#pragma unroll 4
    for (int j = 0; j < kParts; ++j)
      value += sums[(j * kLanes + static_cast<int>(threadIdx.x)) * kAccess + i];
    Vec<T, 1> one;
    one.set_pair(0, value * factor, 0);
    store_vec<T, 1, size_of(T)>(o, at + i * step, one);
  }
}

}  // namespace dlblas::attention
