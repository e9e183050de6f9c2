// grouped_topk of rows of any length: one warp per row. Scores are computed once and kept in shared
// memory as ranks, so the two largest of a group, the groups and the experts are found by comparing
// integers, and ties go to the lower index. In: logits [T, E], bias [E]. Out: weights and ids
// [T, topk + shared]. Numerics: f32; to renormalise, powers are relative to the largest chosen one,
// so that their sum cannot underflow. Flow: call > validate > select > compile > [launch].
// Read next: grouped_topk_config.hpp, grouped_topk_row.cuh, device/row/base.hpp (RowRank).
#pragma once

#include "ops/moe/grouped_topk/grouped_topk_row.cuh"

namespace dlblas::moe {

namespace grouped_topk_detail {

__device__ inline uint64_t warp_largest(uint64_t v) {
#pragma unroll
  for (int d = kWarp / 2; d > 0; d /= 2) RankOp<RowRank>::combine_lane(v, d);
  return v;
}

/// A row's experts as its warp sees them.
struct Row {
  const GroupedTopkParams& p;
  uint32_t* ranks;   // of experts, at grouped_topk_place
  uint64_t* groups;  // ranks of groups
  int lane;

  __device__ uint32_t& rank(int32_t c) const { return ranks[grouped_topk_place(c)]; }
  /// f(group, the lane's part of it) for all groups; all lanes take the same number of steps.
  template <typename F>
  __device__ void each_group(const F& f) const {
    const int part = lane % p.lanes;
    for (int32_t first = 0; first < p.groups; first += kWarp / p.lanes)
      f(first + lane / p.lanes, part);
  }

  /// Ranks each group by the sum of its two best scores.
  __device__ void rank_groups() const {
    each_group([&](int32_t g, int part) {
      uint32_t best = 0, second = 0;
      if (g < p.groups)
        for (int32_t j = part; j < p.group; j += p.lanes) {
          const uint32_t r = rank(g * p.group + j);
          second = max(second, min(best, r)), best = max(best, r);
        }
      for (int d = p.lanes / 2; d > 0; d /= 2) {
        const uint32_t a = __shfl_xor_sync(~0u, best, d), b = __shfl_xor_sync(~0u, second, d);
        second = max(min(best, a), max(second, b)), best = max(best, a);
      }
      if (g < p.groups && part == 0) groups[g] = RowRank::of(sum_of_two(best, second), g);
    });
  }
  /// Excludes the experts of all but the best groups.
  __device__ void drop_groups() const {
    each_group([&](int32_t g, int part) {
      int32_t before = 0;
      if (g < p.groups)
        for (int32_t h = part; h < p.groups; h += p.lanes) before += groups[h] > groups[g];
      for (int d = p.lanes / 2; d > 0; d /= 2) before += __shfl_xor_sync(~0u, before, d);
      if (g < p.groups && before >= p.topk_groups)
        for (int32_t j = part; j < p.group; j += p.lanes) rank(g * p.group + j) = 0;
    });
  }
  /// The best of the lane's own columns; 0 if none is left.
  __device__ uint64_t best_of_lane() const {
    uint64_t best = 0;
    for (int32_t c = lane; c < p.experts; c += kWarp) {
      const uint64_t r = rank(c);
      const uint64_t place = r ? r << 32 | ~static_cast<uint32_t>(c) : 0;
      if (place > best) best = place;
    }
    return best;
  }
};

/// Stores the row's experts if there are more places than lanes hold: a lane writes the ids of its
/// places as they are taken, and reads them back. Weights as in put_row().
template <GroupedTopkTraits S, typename Start>
__device__ inline void put_many(const Row& row, const Start& start, float most, float sum) {
  const GroupedTopkParams& p = row.p;
  float shift = -DeviceMath::infinity(), total = 0;
  const auto id_at = [&](int32_t r) { return start.ids + r * p.ids_stride; };
  const auto logit_of = [&](int32_t id) {
    return load_one<S.type, S.aligned>(p.logits.data, start.logits + id * p.logits_stride);
  };
  const auto put_weight = [&](int32_t r, float weight) {
    store_word<S.aligned>(p.weights.data, start.weights + r * p.weights_stride,
                          bits_of_float(weight));
  };
  uint64_t best = row.best_of_lane();
#pragma unroll 1
  for (int32_t r = 0; r < p.topk; ++r) {
    const uint64_t top = warp_largest(best);
    const auto taken = static_cast<int32_t>(~static_cast<uint32_t>(top));
    if (r % kWarp == row.lane) {
      store_word<S.aligned>(p.ids.data, id_at(r), static_cast<uint32_t>(taken));
      const float x = logit_of(taken);
      shift = DeviceMath::max(shift, S.softmax ? x : DeviceMath::min(x, 0.0f));
    }
    if (best != top) continue;
    row.rank(taken) = 0;  // one of the lane's own columns
    best = row.best_of_lane();
  }
  shift = p.renormalize ? warp_max(shift) : most;
  const auto power_at = [&](int32_t r) {
    const auto id = load_vec<DType::kF32, 1, (S.aligned ? 4 : 1)>(p.ids.data, id_at(r)).words[0];
    return power_of<S.softmax>(logit_of(static_cast<int32_t>(id)), shift);
  };
#pragma unroll 1
  for (int32_t r = row.lane; r < p.topk; r += kWarp) total += power_at(r);
  total = warp_sum(total);
  float factor = p.renormalize ? DeviceMath::reciprocal(total) : 1.0f;
  if (S.softmax && !p.renormalize) factor = DeviceMath::reciprocal(sum);
  if (sum != sum) factor = sum;
#pragma unroll 1
  for (int32_t r = row.lane; r < p.topk; r += kWarp)
    put_weight(r, power_at(r) * (factor * p.scale));
#pragma unroll 1
  for (int32_t s = row.lane; s < p.shared; s += kWarp) {
    put_weight(p.topk + s, total * factor);
    store_word<S.aligned>(p.ids.data, id_at(p.topk + s), static_cast<uint32_t>(p.experts + s));
  }
}

}  // namespace grouped_topk_detail

template <GroupedTopkTraits S, GroupedTopkConfig C>
__global__ void __launch_bounds__(C.warps * 32)
    grouped_topk(const __grid_constant__ GroupedTopkParams p) {
  using namespace grouped_topk_detail;
  extern __shared__ uint64_t shared_words[];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * C.warps + warp;
  if (index >= p.rows) return;  // of whole warps: no barrier of the block follows
  const int32_t words = grouped_topk_words(p.experts, p.groups);
  auto* ranks = reinterpret_cast<uint32_t*>(shared_words) + warp * words;
  const Row row{p, ranks, reinterpret_cast<uint64_t*>(ranks + words - 2 * p.groups), lane};
  const RowStart<false> start(p, index);
  const auto logit = [&](int32_t c) {
    return load_one<S.type, S.aligned>(p.logits.data, start.logits + c * p.logits_stride);
  };

  float most = 0, sum = 1;
  if constexpr (S.softmax) {
    most = -DeviceMath::infinity(), sum = 0;
    for (int32_t c = lane; c < p.experts; c += kWarp) {
      const float x = logit(c);
      row.rank(c) = bits_of_float(x);
      most = DeviceMath::max(most, x);
    }
    most = warp_max(most);
    for (int32_t c = lane; c < p.experts; c += kWarp)
      sum += DeviceMath::exp(float_from_bits(row.rank(c)) - most);
    sum = warp_sum(sum);
  }
  const float inverse = S.softmax ? DeviceMath::reciprocal(sum) : 1.0f;
  for (int32_t c = lane; c < p.experts; c += kWarp) {
    const float x = S.softmax ? float_from_bits(row.rank(c)) : logit(c);
    float score = score_of<S.softmax>(x, most) * inverse;
    if constexpr (S.bias) score += load_one<S.bias_type, S.aligned>(p.bias, c * p.bias_stride);
    row.rank(c) = rank_of(score);
  }
  __syncwarp();
  if (p.topk_groups < p.groups) {
    row.rank_groups();
    __syncwarp();
    row.drop_groups();
    __syncwarp();
  }

  if constexpr (S.many) {
    put_many<S>(row, start, most, sum);
    return;
  }
  // Place r belongs to lane r % 32; a lane has at most two.
  int32_t column[2] = {0, 0};
  uint64_t best = row.best_of_lane();
  for (int32_t r = 0; r < p.topk; ++r) {
    const uint64_t top = warp_largest(best);
    const auto taken = static_cast<int32_t>(~static_cast<uint32_t>(top));
    if (r == lane) column[0] = taken;
    if (r == lane + kWarp) column[1] = taken;
    if (best != top) continue;
    row.rank(taken) = 0;  // one of the lane's own columns
    best = row.best_of_lane();
  }
  put_row<S.softmax, S.type, S.aligned>(p, start, lane, column, most, sum);
}

}  // namespace dlblas::moe
