// grouped_topk of rows in registers: one warp per row; a lane has neighbouring columns, and a group
// has whole lanes. Ranks are 32 bits, so the two best of a group, the groups and the experts are
// warp maxima of integers. In: logits [T, E], bias [E]. Out: weights and ids [T, topk + shared].
// Numerics: as in grouped_topk.cuh, with the same order of ties. Flow: call > validate > select >
// compile > [launch]. Read next: grouped_topk_config.hpp (how columns lie in lanes),
// grouped_topk_row.cuh.
#pragma once

#include "ops/moe/grouped_topk/grouped_topk_row.cuh"

namespace dlblas::moe {

namespace grouped_topk_detail {

/// What a lane holds: N neighbouring columns of one group, as ranks.
template <GroupedTopkLanes S>
struct Lane {
  static constexpr int N = S.columns, kPlaces = S.wide ? 2 : 1;
  const GroupedTopkParams& p;
  uint32_t lane;
  uint32_t ranks[N];

  __device__ Lane(const GroupedTopkParams& params, uint32_t number) : p(params), lane(number) {}
  /// Column j of a lane, and its position in its group.
  __device__ int32_t column_of(uint32_t from, int j) const {
    return static_cast<int32_t>(from / S.lanes) * p.group + place_of(from, j);
  }
  __device__ static int32_t place_of(uint32_t from, int j) {
    return static_cast<int32_t>(from % S.lanes) * N + j;
  }
  /// True if column j of the lane is in its group; the same for all columns of an access.
  __device__ bool holds(int j) const {
    return S.full ||
           (static_cast<int32_t>(lane / S.lanes) < p.groups && place_of(lane, j) < p.group);
  }
  template <DType T>
  __device__ void load(const void* base, int64_t first, int64_t stride, float (&to)[N]) const {
    constexpr int A = S.access, kAlign = !S.aligned ? 1 : A * size_of(T) < 16 ? A * size_of(T) : 16;
#pragma unroll
    for (int j = 0; j < N; j += A) {
      float part[A];
#pragma unroll
      for (int i = 0; i < A; ++i) part[i] = 0;
      if (holds(j)) {
        const int64_t at = first + column_of(lane, j) * (A == 1 ? stride : 1);
        load_vec<T, A, kAlign>(base, at).unpack(part);
      }
#pragma unroll
      for (int i = 0; i < A; ++i) to[j + i] = part[i];
    }
  }

  /// Excludes the experts of all but the best groups.
  __device__ void drop_groups() {
    uint32_t best = 0, second = 0;
#pragma unroll
    for (int j = 0; j < N; ++j)
      second = max(second, min(best, ranks[j])), best = max(best, ranks[j]);
#pragma unroll
    for (int d = S.lanes / 2; d > 0; d /= 2) {
      const uint32_t a = __shfl_xor_sync(~0u, best, d), b = __shfl_xor_sync(~0u, second, d);
      second = max(min(best, a), max(second, b)), best = max(best, a);
    }
    uint32_t group = best ? rank_of(sum_of_two(best, second)) : 0;
    bool kept = false;
#pragma unroll 1
    for (int i = 0; i < p.topk_groups; ++i) {
      const uint32_t top = __reduce_max_sync(~0u, group);
      const uint32_t first = __ffs(__ballot_sync(~0u, group == top)) - 1;
      if (first / S.lanes == lane / S.lanes) kept = true, group = 0;
    }
#pragma unroll
    for (int j = 0; j < N; ++j) ranks[j] = kept ? ranks[j] : 0;
  }

  /// Takes the experts in order if no two of them have the same rank; else returns false. The r-th
  /// rank is the largest below the last one: the maximum of rank − last, modulo 2³², which takes
  /// one instruction per column.
  __device__ bool take_different(int32_t (&column)[kPlaces]) const {
    uint32_t rank[kPlaces] = {}, votes[kPlaces] = {}, last = 0;
#pragma unroll 1
    for (uint32_t r = 0; r < static_cast<uint32_t>(p.topk); ++r) {
      uint32_t even = 0, odd = 0;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        uint32_t& best = j % 2 ? odd : even;
        best = max(ranks[j] - last, best);
      }
      const uint32_t best = max(even, odd), top = __reduce_max_sync(~0u, best);
      const uint32_t holders = __ballot_sync(~0u, best == top);
      last += top;
      if (r == lane) rank[0] = last, votes[0] = holders;
      if constexpr (S.wide)
        if (r == lane + kWarp) rank[1] = last, votes[1] = holders;
    }
    bool different = true;
#pragma unroll
    for (int i = 0; i < kPlaces; ++i) {
      const uint32_t from = (__ffs(votes[i]) - 1u) % kWarp;
      int found = 0, count = 0;
#pragma unroll
      for (int j = 0; j < N; ++j)
        if (__shfl_sync(~0u, ranks[j], from) == rank[i]) found = j, ++count;
      column[i] = column_of(from, found);
      if (lane + i * kWarp < static_cast<uint32_t>(p.topk))
        different &= count == 1 && __popc(votes[i]) == 1;
    }
    return __all_sync(~0u, different);
  }
  /// The same for any ranks, lower columns first: taken columns are marked.
  __device__ void take_any(int32_t (&column)[kPlaces]) {
#pragma unroll 1
    for (uint32_t r = 0; r < static_cast<uint32_t>(p.topk); ++r) {
      uint32_t best = 0;
#pragma unroll
      for (int j = 0; j < N; ++j) best = max(best, ranks[j]);
      const uint32_t top = __reduce_max_sync(~0u, best);
      const uint32_t from = __ffs(__ballot_sync(~0u, best == top)) - 1;
      bool mine = lane == from;
      int found = 0;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        if (!mine || ranks[j] != top) continue;
        ranks[j] = 0, found = j, mine = false;
      }
      found = __shfl_sync(~0u, found, from);
      if (r == lane) column[0] = column_of(from, found);
      if constexpr (S.wide)
        if (r == lane + kWarp) column[1] = column_of(from, found);
    }
  }
};

}  // namespace grouped_topk_detail

template <GroupedTopkLanes S, GroupedTopkConfig C>
__global__ void __launch_bounds__(C.warps * 32)
    grouped_topk_lanes(const __grid_constant__ GroupedTopkParams p) {
  using namespace grouped_topk_detail;
  constexpr int N = S.columns;
  const uint32_t number = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * C.warps + warp;
  wait_for_dependencies();
  launch_dependents();
  if (index >= p.rows) return;  // of whole warps: no barrier of the block follows
  Lane<S> lane(p, number);
  float x[N], bias[N];
  const RowStart<S.flat> start(p, index);
  lane.template load<S.type>(p.logits.data, start.logits, p.logits_stride, x);
  if constexpr (S.bias) lane.template load<S.bias_type>(p.bias, 0, p.bias_stride, bias);

  float most = 0, sum = 1;
  if constexpr (S.softmax) {
    most = -DeviceMath::infinity(), sum = 0;
#pragma unroll
    for (int j = 0; j < N; ++j)
      if (lane.holds(j / S.access * S.access)) most = DeviceMath::max(most, x[j]);
    most = warp_max(most);
#pragma unroll
    for (int j = 0; j < N; ++j)
      if (lane.holds(j / S.access * S.access)) sum += DeviceMath::exp(x[j] - most);
    sum = warp_sum(sum);
  }
  const float inverse = S.softmax ? DeviceMath::reciprocal(sum) : 1.0f;
#pragma unroll
  for (int j = 0; j < N; ++j) {
    float score = score_of<S.softmax>(x[j], most) * inverse;
    if constexpr (S.bias) score += bias[j];
    lane.ranks[j] = lane.holds(j / S.access * S.access) ? rank_of(score) : 0;
  }
  if constexpr (S.lanes < kWarp) lane.drop_groups();
  int32_t column[Lane<S>::kPlaces];
  if (!lane.take_different(column)) lane.take_any(column);
  put_row<S.softmax, S.type, S.aligned>(p, start, static_cast<int>(number), column, most, sum);
}

}  // namespace dlblas::moe
