// Capacity gating: the choices and gates of each token (moe_gate), their places by a stable sort
// (ops/moe/sort), what a place below the capacity makes of them (moe_gate_place), and the weights
// of those that stay (moe_gate_weigh). The gradient is gating_gradient.cuh's.
// In: logits [T, E]. Numerics: f32; means over tokens in f32 over the tokens of a warp and f64 over
// those; logits are compared exactly. No atomics, one order.
// Flow: call > validate > select > compile > [launch].  Read next: gating_config.hpp.
#pragma once

#include "device/row/values.cuh"
#include "ops/moe/gating/gating_config.hpp"
#include "ops/moe/sort/sort.cuh"

namespace dlblas::moe {

namespace moe_gating {

inline constexpr MoeSortTraits kWords = {DType::kI32, true};

template <DType T, bool kAligned>
__device__ inline float load_one(const void* base, int64_t offset) {
  float v[1];
  load_vec<T, 1, (kAligned ? size_of(T) : 1)>(base, offset).unpack(v);
  return v[0];
}
template <DType T, bool kAligned>
__device__ inline void store_one(void* base, int64_t offset, float value) {
  Vec<T, 1> v;
  v.pack({value});
  store_vec<T, 1, (kAligned ? size_of(T) : 1)>(base, offset, v);
}

template <int kLanes = kWarp>
__device__ inline float warp_max(float value) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    value = DeviceMath::max(value, __shfl_xor_sync(~0u, value, distance));
  return value;
}

/// Of a lane's part of a row: f32 while it is short.
template <bool kShort>
struct SumOf {
  using Type = float;
};
template <>
struct SumOf<false> {
  using Type = double;
};

/// A row of logits over the lanes of a warp: lane l has experts l, l + 32, …
template <MoeGateTraits S>
struct Row {
  static constexpr int kHeld = S.held > 0 ? S.held : 1;
  using Sum = typename SumOf<(S.held > 0)>::Type;
  const void* logits;
  int64_t at, column;
  int32_t experts;
  float x[kHeld];
  float most, inverse;  // the largest, and 1 / Σ e^(x − most)

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kWarp; }
  __device__ float load(int32_t expert) const {
    return load_one<S.type, S.aligned>(logits, at + expert * column);
  }
  /// f(expert, logit, place): place counts a lane's experts.
  template <typename F>
  __device__ void each(const F& f) const {
    if constexpr (S.held > 0) {
#pragma unroll
      for (int i = 0; i < S.held; ++i)
        if (const int32_t e = i * kWarp + lane(); e < experts) f(e, x[i], i);
    } else {
      for (int32_t e = lane(); e < experts; e += kWarp) f(e, load(e), 0);
    }
  }
  __device__ void read(int64_t row) {
    at = row;
    if constexpr (S.held > 0) {
#pragma unroll
      for (int i = 0; i < S.held; ++i) {
        const int32_t e = i * kWarp + lane();
        x[i] = e < experts ? load(e) : 0.0f;
      }
    }
    most = -DeviceMath::infinity();
    each([&](int32_t, float v, int) { most = DeviceMath::max(most, v); });
    most = warp_max(most);
    Sum sum = 0;
    each([&](int32_t, float v, int) { sum += static_cast<Sum>(DeviceMath::exp(v - most)); });
    inverse = 1.0f / static_cast<float>(warp_sum(sum));
  }
  __device__ float gate(float logit) const { return DeviceMath::exp(logit - most) * inverse; }
};

/// Larger keys come first: NaN, then logits as they are ordered, equal ones from the lower expert.
__device__ inline uint32_t order_of(float logit) {
  const uint32_t bits = bits_of_float(logit + 0.0f);  // −0 is 0
  if (logit != logit) return ~0u;
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

}  // namespace moe_gating

template <MoeGateTraits S>
__global__ void __launch_bounds__(kMoeThreads) moe_gate(const __grid_constant__ MoeGateParams p) {
  using namespace moe_gating;
  const int64_t part = moe_sort::warp_of_grid();
  if (part >= p.parts) return;
  const int lane = Row<S>::lane();
  const auto first = static_cast<int32_t>(part) * kMoeGateTokens;
  const int32_t end = first + min(p.tokens - first, kMoeGateTokens);
  float sums[Row<S>::kHeld] = {};
  Row<S> row;
  row.logits = p.logits, row.column = p.column, row.experts = p.experts;
  for (int32_t t = first; t < end; ++t) {
    row.read(t * p.row);
    row.each([&](int32_t e, float v, int i) {
      const float gate = row.gate(v);
      if constexpr (S.held > 0) {
        sums[i] += gate;
      } else {
        float* const sum = p.sums + static_cast<int64_t>(e) * p.parts + part;
        *sum = t == first ? gate : *sum + gate;
      }
    });
    uint32_t last_order = ~0u, last_low = ~0u;  // what was taken before comes before these
    for (int32_t j = 0; j < p.choices; ++j) {
      uint32_t order = 0, low = 0;
      row.each([&](int32_t e, float v, int) {
        const uint32_t mine = order_of(v), rest = ~0u - 1 - static_cast<uint32_t>(e);
        const bool left = mine < last_order || (mine == last_order && rest < last_low);
        if (left && (mine > order || (mine == order && rest > low))) order = mine, low = rest;
      });
      last_order = __reduce_max_sync(~0u, order);
      last_low = __reduce_max_sync(~0u, order == last_order ? low : 0u);
      const bool found = last_order != 0;
      const auto expert = static_cast<int32_t>(~0u - 1 - last_low);
      if (lane == 0) {
        const int64_t item = static_cast<int64_t>(j) * p.tokens + t;
        p.chosen[item] = found ? expert : -1;
        p.gates[item] = found ? row.gate(row.load(expert)) : 0.0f;
      }
    }
  }
  if constexpr (S.held > 0) {
#pragma unroll
    for (int i = 0; i < S.held; ++i)
      if (const int32_t e = i * kWarp + lane; e < p.experts)
        p.sums[static_cast<int64_t>(e) * p.parts + part] = sums[i];
  }
}

/// One warp per expert: where its choices begin in each chunk, its first choices, its term of
/// l_aux.
template <MoeGateTraits S>
__global__ void __launch_bounds__(kMoeThreads)
    moe_gate_scan(const __grid_constant__ MoeGateScanParams p) {
  const int64_t expert = moe_sort::warp_of_grid();
  if (expert >= p.sort.experts) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  scan_expert(p.sort, static_cast<int32_t>(expert));
  __syncwarp();
  double sum = 0;
  const float* sums = p.sums + expert * p.parts;
  for (int32_t i = lane; i < p.parts; i += kWarp) sum += static_cast<double>(sums[i]);
  sum = warp_sum(sum);
  if (lane != 0) return;
  const bool more = p.sort.chunks > p.sort.segment_chunks;
  const int32_t first =
      more ? p.sort.counts[expert * p.sort.chunks + p.sort.segment_chunks] : p.sort.totals[expert];
  moe_sort::store_word<S.aligned_results>(p.first_choices, expert, first);
  const double tokens = p.tokens;
  p.terms[expert] = p.tokens > 0 ? p.sort.experts * (sum / tokens) * (first / tokens) : 0.0;
}

/// The first warps walk chunks of choices, the others write 0 into slots that stay empty.
template <MoeGateTraits S>
__global__ void __launch_bounds__(kMoeThreads)
    moe_gate_place(const __grid_constant__ MoeGatePlaceParams p) {
  using namespace moe_sort;
  const int64_t warp = warp_of_grid();
  const auto select = [&](int64_t slot, int32_t token) {
    const MoeColumn words = {p.select.data, 1};
    const int64_t at = 2 * slot * p.select.stride;
    store_word<S.aligned_results>(words, at, token);
    store_word<S.aligned_results>(words, at + 1, 0);
  };
  if (warp < p.sort.chunks) {
    const auto chunk = static_cast<int32_t>(warp);
    walk_chunk<moe_gating::kWords>(p.sort, chunk, begin_counters(p.sort, chunk, false),
                                   [&](int32_t item, int32_t expert, int32_t place) {
                                     const bool stays = expert >= 0 && place < p.capacity;
                                     const int32_t slot = stays ? expert * p.capacity + place : 0;
                                     store_word<S.aligned_results>(p.slots, item, slot);
                                     store_word<S.aligned_results>(p.kept, item,
                                                                   stays ? expert : -1);
                                     if (stays) select(slot, item % p.tokens);
                                   });
    return;
  }
  const int64_t step = (gridDim.x * static_cast<int64_t>(kMoeWarps) - p.sort.chunks) * kWarp;
  const int64_t first = (warp - p.sort.chunks) * kWarp + static_cast<int>(threadIdx.x) % kWarp;
  for (int64_t slot = first; slot < p.places; slot += step) {
    const auto expert = static_cast<int32_t>(slot / p.capacity);
    if (slot - static_cast<int64_t>(expert) * p.capacity >= p.sort.totals[expert]) select(slot, 0);
  }
}

/// One thread per token; the first warp adds up l_aux as well.
template <MoeGateTraits S>
__global__ void __launch_bounds__(kMoeThreads)
    moe_gate_weigh(const __grid_constant__ MoeGateWeighParams p) {
  using namespace moe_gating;
  if (blockIdx.x == 0 && threadIdx.x < kWarp) {
    double sum = 0;
    for (int32_t e = static_cast<int>(threadIdx.x); e < p.experts; e += kWarp) sum += p.terms[e];
    sum = warp_sum(sum);
    if (threadIdx.x == 0)
      store_one<S.result, S.aligned_results>(p.l_aux, 0, static_cast<float>(sum));
  }
  const int64_t token = blockIdx.x * static_cast<int64_t>(kMoeThreads) + threadIdx.x;
  if (token >= p.tokens) return;
  const auto stays = [&](int32_t j) {
    return moe_sort::load_word<S.aligned_results>(
               p.kept.data, (static_cast<int64_t>(j) * p.tokens + token) * p.kept.stride) >= 0;
  };
  float sum = 0;
  for (int32_t j = 0; j < p.choices; ++j)
    if (stays(j)) sum += p.gates[static_cast<int64_t>(j) * p.tokens + token];
  const float divisor = DeviceMath::max(sum, p.eps);
  for (int32_t j = 0; j < p.choices; ++j) {
    const int64_t item = static_cast<int64_t>(j) * p.tokens + token;
    store_one<S.result, S.aligned_results>(p.weights.data, item * p.weights.stride,
                                           stays(j) ? p.gates[item] / divisor : 0.0f);
  }
}

}  // namespace dlblas::moe
