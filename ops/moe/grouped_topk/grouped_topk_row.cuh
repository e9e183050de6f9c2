// Shared by the kernels of grouped_topk: ranks, scores, and the weights of the chosen experts. A
// rank has 32 bits and is ordered as the values are; 0 marks an expert that may not be taken.
// Read next: grouped_topk_lanes.cuh (rows in registers), grouped_topk.cuh (of any length).
#pragma once

#include "device/element_f64.cuh"
#include "device/pdl.cuh"
#include "device/row/reduce.cuh"
#include "device/vec.cuh"
#include "ops/moe/grouped_topk/grouped_topk_config.hpp"

namespace dlblas::moe {

namespace grouped_topk_detail {

template <DType T, bool kAligned>
__device__ inline float load_one(const void* base, int64_t offset) {
  return unpack_one<T>(load_vec<T, 1, (kAligned ? size_of(T) : 1)>(base, offset).words[0]);
}
template <bool kAligned>
__device__ inline void store_word(void* base, int64_t offset, uint32_t word) {
  Vec<DType::kF32, 1> v;
  v.words[0] = word;
  store_vec<DType::kF32, 1, (kAligned ? 4 : 1)>(base, offset, v);
}

/// NaN ranks above all: adding 0 gives 0x7fffffff for any NaN, and +0 for −0.
__device__ inline uint32_t rank_of(float value) {
  const uint32_t bits = bits_of_float(value + 0.0f);
  return bits ^ (static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31) | 0x80000000u);
}
__device__ inline float value_of(uint32_t rank) {
  return RowRank::picked(static_cast<uint64_t>(rank) << 32).value;
}

/// NaN wins.
__device__ inline float warp_max(float v) { return value_of(__reduce_max_sync(~0u, rank_of(v))); }

/// e^(x − shift), or σ(x)·e^−shift.
template <bool kSoftmax>
__device__ inline float power_of(float x, float shift) {
  if constexpr (kSoftmax) return DeviceMath::exp(x - shift);
  const float size = x < 0 ? -x : x;
  return DeviceMath::exp(DeviceMath::min(x, 0.0f) - shift) *
         DeviceMath::reciprocal(1.0f + DeviceMath::exp(-size));
}
/// The same with one exponential less, since sigmoids are not shifted here.
template <bool kSoftmax>
__device__ inline float score_of(float x, float shift) {
  if constexpr (kSoftmax) return power_of<true>(x, shift);
  const float power = DeviceMath::exp(x < 0 ? x : -x);
  return (x < 0 ? power : 1.0f) * DeviceMath::reciprocal(1.0f + power);
}

/// The sum of a group's two best; `second` is 0 if there is only one.
__device__ inline float sum_of_two(uint32_t best, uint32_t second) {
  const float one = value_of(best);
  return second ? one + value_of(second) : one;
}

/// Where the row `index` begins in each tensor, in elements.
template <bool kFlat>
struct RowStart {
  int64_t logits, weights, ids;
  __device__ RowStart(const GroupedTopkParams& p, int64_t index) {
    const int32_t count = p.topk + p.shared;
    logits = kFlat ? index * p.logits_row : offset_of(p.logits, index * p.experts);
    weights = kFlat ? index * p.weights_row : offset_of(p.weights, index * count);
    ids = kFlat ? index * p.ids_row : offset_of(p.ids, index * count);
  }
};

/// Stores weights and ids of the experts that a row's warp has chosen, and of the shared ones.
/// Place r belongs to lane r % 32. `most` and `sum` are those of the softmax.
template <bool kSoftmax, DType T, bool kAligned, int kPlaces, typename Start>
__device__ inline void put_row(const GroupedTopkParams& p, const Start& start, int lane,
                               const int32_t (&column)[kPlaces], float most, float sum) {
  float x[kPlaces], shift = -DeviceMath::infinity(), total = 0;
  const auto has = [&](int i) { return lane + i * kWarp < p.topk; };
#pragma unroll
  for (int i = 0; i < kPlaces; ++i) {
    x[i] = 0;
    if (!has(i)) continue;
    x[i] = load_one<T, kAligned>(p.logits.data, start.logits + column[i] * p.logits_stride);
    shift = DeviceMath::max(shift, kSoftmax ? x[i] : DeviceMath::min(x[i], 0.0f));
  }
  shift = p.renormalize ? warp_max(shift) : most;
#pragma unroll
  for (int i = 0; i < kPlaces; ++i)
    if (has(i)) x[i] = power_of<kSoftmax>(x[i], shift), total += x[i];
  total = warp_sum(total);
  float factor = p.renormalize ? DeviceMath::reciprocal(total) : 1.0f;
  if (kSoftmax && !p.renormalize) factor = DeviceMath::reciprocal(sum);
  if (sum != sum) factor = sum;
  const auto put = [&](int32_t r, float weight, int32_t id) {
    store_word<kAligned>(p.weights.data, start.weights + r * p.weights_stride,
                         bits_of_float(weight));
    store_word<kAligned>(p.ids.data, start.ids + r * p.ids_stride, static_cast<uint32_t>(id));
  };
#pragma unroll
  for (int i = 0; i < kPlaces; ++i)
    if (has(i)) put(lane + i * kWarp, x[i] * (factor * p.scale), column[i]);
#pragma unroll 1
  for (int32_t s = lane; s < p.shared; s += kWarp) put(p.topk + s, total * factor, p.experts + s);
}

}  // namespace grouped_topk_detail

}  // namespace dlblas::moe
