// Capacity gating: each token's choices and gates, and how often a chunk of tokens chooses each
// expert (moe_gate); where these choices begin, as in ops/moe/sort (moe_gate_scan); the slots of
// the choices whose place is below the capacity, and their weights (moe_gate_place). The gradient
// is in gating_gradient.cuh.
// In: logits [T, E]. Numerics: f32; means over tokens are summed in f32 within a block (within a
// warp if rows are read again), and in f64 across them; logits are compared exactly. Atomics only
// count, so results do not depend on their order.
// Flow: call > validate > select > compile > [launch].  Read next: gating_config.hpp.
#pragma once

#include "device/pdl.cuh"
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

/// The type of a sum over a lane's part of a row: f32 while the part is short.
template <bool kShort>
struct SumOf {
  using Type = float;
};
template <>
struct SumOf<false> {
  using Type = double;
};

/// A row of logits spread over the lanes of a warp: lane l has experts l, l + 32, …
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
  __device__ __forceinline__ float load(int32_t expert) const {
    return load_one<S.type, S.aligned>(logits, at + expert * column);
  }
  /// f(expert, logit, place); place is the index among the lane's experts.
  template <typename F>
  __device__ __forceinline__ void each(const F& f) const {
    if constexpr (S.held > 0) {
#pragma unroll
      for (int i = 0; i < S.held; ++i)
        if (const int32_t e = i * kWarp + lane(); e < experts) f(e, x[i], i);
    } else {
#pragma unroll 2  // more, and sm_80 spills
      for (int32_t e = lane(); e < experts; e += kWarp) f(e, load(e), 0);
    }
  }
  __device__ __forceinline__ void read(int64_t row) {
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
  __device__ __forceinline__ float gate(float logit) const {
    return DeviceMath::exp(logit - most) * inverse;
  }
};

/// Larger keys come first: NaN, then logits in descending order; equal ones start at the lower
/// expert.
__device__ inline uint32_t order_of(float logit) {
  const uint32_t bits = bits_of_float(logit + 0.0f);  // −0 is 0
  if (logit != logit) return ~0u;
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

}  // namespace moe_gating

/// Each warp takes its own tokens; the block counts the choices of all of them, with separate
/// counters for first, second and further choices.
template <MoeGateTraits S>
__global__ void __launch_bounds__(kMoeThreads) moe_gate(const __grid_constant__ MoeGateParams p) {
  using namespace moe_gating;
  extern __shared__ int32_t gate_memory[];  // counters, where there is room, and sums of warps
  wait_for_dependencies();
  launch_dependents();
  // Warp-uniform for the compiler: shuffles within the loop need no calls.
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / kWarp, 0);
  const int lane = Row<S>::lane();
  const int64_t part = blockIdx.x * static_cast<int64_t>(kMoeWarps) + warp;
  const bool shared = int64_t{p.choices} * p.experts <= kMoeGateCounters;
  const auto in_table = [&](int32_t choice, int32_t expert) {
    return p.counts + (static_cast<int64_t>(expert) * p.choices + choice) * p.blocks + blockIdx.x;
  };
  // f(choice, expert) for each of the block's counters.
  const auto each_counter = [&](const auto& f) {
#pragma unroll 1
    for (int32_t choice = 0; choice < p.choices; ++choice)
#pragma unroll 1
      for (auto e = static_cast<int32_t>(threadIdx.x); e < p.experts; e += kMoeThreads)
        f(choice, e);
  };
  each_counter([&](int32_t choice, int32_t expert) {
    if (shared)
      gate_memory[choice * p.experts + expert] = 0;
    else
      *in_table(choice, expert) = 0;
  });
  __syncthreads();
  const auto first = static_cast<int32_t>(min(part * kMoeGateTokens, int64_t{p.tokens}));
  const int32_t end = first + min(p.tokens - first, kMoeGateTokens);
  float sums[Row<S>::kHeld] = {};
  Row<S> row;
  row.logits = p.logits, row.column = p.column, row.experts = p.experts;
  if (S.held == 0 && first >= end)  // a warp without tokens has a sum too
#pragma unroll 1
    for (int32_t e = lane; e < p.experts; e += kWarp)
      p.sums[static_cast<int64_t>(e) * p.parts + part] = 0;
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
        if (found && shared) atomicAdd(gate_memory + j * p.experts + expert, 1);
        if (found && !shared) atomicAdd(in_table(j, expert), 1);
      }
    }
  }
  float* const of_warps =
      reinterpret_cast<float*>(gate_memory + (shared ? p.choices * p.experts : 0));
  if constexpr (S.held > 0) {
#pragma unroll
    for (int i = 0; i < S.held; ++i)
      if (const int32_t e = i * kWarp + lane; e < p.experts)
        of_warps[warp * p.experts + e] = sums[i];
  }
  __syncthreads();
  if constexpr (S.held > 0) {
    for (int32_t e = static_cast<int32_t>(threadIdx.x); e < p.experts; e += kMoeThreads) {
      float sum = 0;
#pragma unroll
      for (int w = 0; w < kMoeWarps; ++w) sum += of_warps[w * p.experts + e];
      p.sums[static_cast<int64_t>(e) * p.parts + blockIdx.x] = sum;
    }
  }
  if (!shared) return;
  each_counter([&](int32_t choice, int32_t expert) {
    *in_table(choice, expert) = gate_memory[choice * p.experts + expert];
  });
}

/// One warp per expert: computes where its choices begin in each chunk, the number of its first
/// choices, and its term of l_aux.
template <MoeGateTraits S>
__global__ void __launch_bounds__(kMoeThreads)
    moe_gate_scan(const __grid_constant__ MoeGateScanParams p) {
  wait_for_dependencies();
  launch_dependents();
  const int64_t expert = moe_sort::warp_of_grid();
  if (expert >= p.sort.experts) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  scan_expert(p.sort, static_cast<int32_t>(expert));
  __syncwarp();
  double sum = 0;
  const float* sums = p.sums + expert * p.parts;
#pragma unroll 8
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

/// A token's weights: its gates over the sum of those that stay. Called by the lane that stored
/// `kept`.
template <MoeGateTraits S>
__device__ inline void weigh(const MoeGatePlaceParams& p, int64_t token) {
  using namespace moe_gating;
  const auto item = [&](int32_t j) { return static_cast<int64_t>(j) * p.tokens + token; };
  const auto stays = [&](int32_t j) {
    return moe_sort::load_word<S.aligned_results>(p.kept.data, item(j) * p.kept.stride) >= 0;
  };
  float sum = 0;
  for (int32_t j = 0; j < p.choices; ++j)
    if (stays(j)) sum += p.gates[item(j)];
  const float divisor = DeviceMath::max(sum, p.eps);
  for (int32_t j = 0; j < p.choices; ++j)
    store_one<S.result, S.aligned_results>(p.weights.data, item(j) * p.weights.stride,
                                           stays(j) ? p.gates[item(j)] / divisor : 0.0f);
}

/// The first warps each walk all choices of one chunk of tokens; the others write 0 into slots that
/// stay empty, and the first of them adds up l_aux.
template <MoeGateTraits S>
__global__ void __launch_bounds__(kMoeThreads)
    moe_gate_place(const __grid_constant__ MoeGatePlaceParams p) {
  using namespace moe_sort;
  wait_for_dependencies();
  launch_dependents();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t warp = warp_of_grid();
  const auto select = [&](int64_t slot, int32_t token) {
    const MoeColumn words = {p.select.data, 1};
    const int64_t at = 2 * slot * p.select.stride;
    store_word<S.aligned_results>(words, at, token);
    store_word<S.aligned_results>(words, at + 1, 0);
  };
  if (warp < p.sort.segment_chunks) {
    for (int32_t j = 0; j < p.choices; ++j) {
      const auto chunk = static_cast<int32_t>(j * p.sort.segment_chunks + warp);
      walk_chunk<moe_gating::kWords, kMoeGateChunk>(
          p.sort, chunk, begin_counters(p.sort, chunk, false),
          [&](int32_t item, int32_t expert, int32_t place) {
            const bool stays = expert >= 0 && place < p.capacity;
            const int32_t slot = stays ? expert * p.capacity + place : 0;
            store_word<S.aligned_results>(p.slots, item, slot);
            store_word<S.aligned_results>(p.kept, item, stays ? expert : -1);
            if (stays) select(slot, item % p.tokens);
          });
      __syncwarp();  // counters begin again
    }
    const int64_t first = warp * kMoeGateChunk;
    const int64_t end = min(static_cast<int64_t>(p.tokens), first + kMoeGateChunk);
    for (int64_t token = first + lane; token < end; token += kWarp) weigh<S>(p, token);
    return;
  }
  if (warp == p.sort.segment_chunks) {
    double sum = 0;
    for (int32_t e = lane; e < p.sort.experts; e += kWarp) sum += p.terms[e];
    sum = warp_sum(sum);
    if (lane == 0)
      moe_gating::store_one<S.result, S.aligned_results>(p.l_aux, 0, static_cast<float>(sum));
  }
  const int64_t others = gridDim.x * static_cast<int64_t>(kMoeWarps) - p.sort.segment_chunks;
  const int64_t first = (warp - p.sort.segment_chunks) * kWarp + lane;
  for (int64_t slot = first; slot < p.places; slot += others * kWarp) {
    const auto expert = static_cast<int32_t>(slot / p.capacity);
    if (slot - static_cast<int64_t>(expert) * p.capacity >= p.sort.totals[expert]) select(slot, 0);
  }
}

}  // namespace dlblas::moe
