// Sorts items by expert, stable within an expert: counts the items of each chunk (moe_count), adds
// the counts up over an expert's chunks (moe_scan) and over experts (moe_bases); then a kernel of
// the operator walks the chunks again and knows each item's place. No atomics: one order, one
// result. In: ids of experts. Out: counts, totals, bases. Flow: call > validate > select > compile
// > [launch]. Read next: ops/moe/moe_align/moe_align.cuh (a kernel that places items).
#pragma once

#include "device/reduce.cuh"
#include "device/vec.cuh"
#include "ops/moe/sort/sort_config.hpp"

namespace dlblas::moe {

namespace moe_sort {

/// A 32-bit word; its address is aligned to 4 bytes, or not at all.
template <bool kAligned>
__device__ inline int32_t load_word(const void* base, int64_t offset) {
  return static_cast<int32_t>(load_vec<DType::kI32, 1, (kAligned ? 4 : 1)>(base, offset).words[0]);
}
template <bool kAligned>
__device__ inline void store_word(const MoeColumn& to, int64_t index, int32_t value) {
  Vec<DType::kI32, 1> word;
  word.words[0] = static_cast<uint32_t>(value);
  store_vec<DType::kI32, 1, (kAligned ? 4 : 1)>(to.data, index * to.stride, word);
}

/// An index in a table; −1 if it is not in [0, count).
template <MoeSortTraits S>
__device__ inline int32_t load_index(const void* table, int64_t offset, int32_t count) {
  int32_t low, high;
  if constexpr (S.ids == DType::kI64) {
    low = load_word<S.aligned>(table, 2 * offset);
    high = load_word<S.aligned>(table, 2 * offset + 1);
  } else {
    low = load_word<S.aligned>(table, offset);
    high = 0;
  }
  return high == 0 && low >= 0 && low < count ? low : -1;
}
template <MoeSortTraits S>
__device__ inline int32_t expert_of(const MoeSortParams& p, int32_t item) {
  const int32_t outer = item / p.inner, inner = item - outer * p.inner;
  return load_index<S>(p.ids, outer * p.outer_stride + inner * p.inner_stride, p.experts);
}

/// Where a warp counts its chunk's experts: counter e is at[e · step].
struct Counters {
  int32_t* at;
  int64_t step;
};
extern __shared__ int32_t warp_counters[];
__device__ inline Counters counters_of(const MoeSortParams& p, int32_t chunk) {
  if (p.experts > kMoeSharedExperts) return {p.counts + chunk, p.chunks};
  return {warp_counters + static_cast<int>(threadIdx.x) / kWarp * p.experts, 1};
}

/// Walks the items of a chunk in order: f(item, expert, counter), with the counter's value before
/// the item increments it. Expert −1 counts nothing. All lanes of the warp must call it.
template <MoeSortTraits S, int kChunk = kMoeChunk, typename F>
__device__ inline void walk_chunk(const MoeSortParams& p, int32_t chunk, const Counters& counters,
                                  const F& f) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int32_t segment = chunk / p.segment_chunks;
  const int32_t inside = (chunk - segment * p.segment_chunks) * kChunk;
  const int32_t first = segment * p.segment + inside, end = min(p.segment - inside, kChunk);
  for (int32_t i = lane; i - lane < end; i += kWarp) {
    const bool there = i < end;
    const int32_t expert = there ? expert_of<S>(p, first + i) : -1;
    const uint32_t same = __match_any_sync(~0u, expert);
    const int before = __popc(same & ((1u << lane) - 1));
    const int32_t count = expert >= 0 ? counters.at[expert * counters.step] : 0;
    __syncwarp();
    if (expert >= 0 && before == 0) counters.at[expert * counters.step] = count + __popc(same);
    __syncwarp();
    if (there) f(first + i, expert, count + before);
  }
}

/// The warp's number in the grid.
__device__ inline int64_t warp_of_grid() {
  return blockIdx.x * static_cast<int64_t>(kMoeWarps) + threadIdx.x / kWarp;
}

/// Counters that start at the counts of the preceding chunks, plus the bases of groups if `based`.
__device__ inline Counters begin_counters(const MoeSortParams& p, int32_t chunk, bool based) {
  const Counters counters = counters_of(p, chunk);
  for (int32_t e = static_cast<int>(threadIdx.x) % kWarp; e < p.experts; e += kWarp) {
    const int32_t before = p.counts[static_cast<int64_t>(e) * p.chunks + chunk];
    counters.at[e * counters.step] = before + (based ? p.bases[e] : 0);
  }
  __syncwarp();
  return counters;
}

}  // namespace moe_sort

/// One warp per chunk: counts[e, chunk].
template <MoeSortTraits S>
__global__ void __launch_bounds__(kMoeThreads) moe_count(const __grid_constant__ MoeSortParams p) {
  using namespace moe_sort;
  const int64_t chunk = warp_of_grid();
  if (chunk >= p.chunks) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const Counters counters = counters_of(p, static_cast<int32_t>(chunk));
  for (int32_t e = lane; e < p.experts; e += kWarp) counters.at[e * counters.step] = 0;
  __syncwarp();
  walk_chunk<S>(p, static_cast<int32_t>(chunk), counters, [](int32_t, int32_t, int32_t) {});
  if (p.experts > kMoeSharedExperts) return;
  for (int32_t e = lane; e < p.experts; e += kWarp)
    p.counts[static_cast<int64_t>(e) * p.chunks + chunk] = counters.at[e];
}

/// One warp per expert: each count becomes the sum over the preceding chunks; the total is the sum
/// of all.
__device__ inline void scan_expert(const MoeSortParams& p, int32_t expert) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  int32_t* counts = p.counts + static_cast<int64_t>(expert) * p.chunks;
  constexpr int kEach = 8;  // chunks of a lane
  int32_t carry = 0;
  for (int32_t first = 0; first < p.chunks; first += kWarp * kEach) {
    const int32_t at = first + lane * kEach;
    int32_t before[kEach], own = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) before[i] = at + i < p.chunks ? counts[at + i] : 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int32_t count = before[i];
      before[i] = own, own += count;
    }
    int32_t sum = own;
#pragma unroll
    for (int distance = 1; distance < kWarp; distance *= 2) {
      const int32_t other = __shfl_up_sync(~0u, sum, distance);
      if (lane >= distance) sum += other;
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      if (at + i < p.chunks) counts[at + i] = carry + sum - own + before[i];
    carry += __shfl_sync(~0u, sum, kWarp - 1);
  }
  if (lane == 0) p.totals[expert] = carry;
}
template <MoeSortTraits S>
__global__ void __launch_bounds__(kMoeThreads) moe_scan(const __grid_constant__ MoeSortParams p) {
  const int64_t expert = moe_sort::warp_of_grid();
  if (expert < p.experts) scan_expert(p, static_cast<int32_t>(expert));
}

/// One block: computes where groups begin, each as long as its total rounded up to `block`.
template <MoeSortTraits S>
__global__ void __launch_bounds__(kMoeScanThreads)
    moe_bases(const __grid_constant__ MoeSortParams p) {
  __shared__ int32_t warps[kMoeScanThreads / kWarp];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp;
  int32_t carry = 0;
  for (int32_t first = 0; first < p.experts; first += kMoeScanThreads) {
    const int32_t e = first + thread;
    const int32_t total = e < p.experts ? p.totals[e] : 0;
    const int32_t size = (total + p.block - 1) / p.block * p.block;
    int32_t sum = size;
#pragma unroll
    for (int distance = 1; distance < kWarp; distance *= 2) {
      const int32_t other = __shfl_up_sync(~0u, sum, distance);
      if (lane >= distance) sum += other;
    }
    if (lane == kWarp - 1) warps[thread / kWarp] = sum;
    __syncthreads();
    int32_t all = warps[lane];
#pragma unroll
    for (int distance = 1; distance < kWarp; distance *= 2) {
      const int32_t other = __shfl_up_sync(~0u, all, distance);
      if (lane >= distance) all += other;
    }
    const int32_t before = __shfl_sync(~0u, all, max(thread / kWarp - 1, 0));
    const int32_t base = carry + (thread < kWarp ? 0 : before) + sum - size;
    if (e < p.experts) p.bases[e] = base;
    carry += __shfl_sync(~0u, all, kWarp - 1);
    __syncthreads();  // `warps` is written again
  }
  if (thread == 0) p.bases[p.experts] = carry;
}

}  // namespace dlblas::moe
