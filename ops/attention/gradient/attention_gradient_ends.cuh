// The kernels before and after attention_gradient_wgmma.cuh: one block per tile of queries of a
// head. Before: lse and delta in the layout that kernel copies, and turns of 0. After: dq from the
// sums over all keys, scaled and rounded. In: AttentionGradientWgmmaParams, with g.p.tiles tiles of
// queries. Flow: call > validate > select > compile > [launch].  Read next:
// attention_gradient_wgmma.cuh.
#pragma once

#include "ops/attention/gradient/attention_gradient.cuh"

namespace dlblas::attention {

namespace gradient_wgmma {

inline constexpr int kKeys = AttentionGradientWgmmaConfig::kKeys;
inline constexpr int kQueries = AttentionGradientWgmmaConfig::kQueries;
inline constexpr int kBeforeWarps = 4;

/// Index of a tile of queries of `head` among all tiles.
template <AttentionTraits S>
__device__ __forceinline__ int64_t query_tile(const AttentionGradientWgmmaParams& g, const Tile& t,
                                              int32_t head, int32_t tile) {
  const int64_t heads = static_cast<int64_t>(g.g.p.heads) * g.g.p.group;
  if constexpr (S.packed_sequences)
    return head * static_cast<int64_t>(g.q_tiles) + t.q_from / kQueries + t.batch + tile;
  return (t.batch * heads + head) * g.q_tiles + tile;
}

/// The blocks of keys for a tile of queries: those with a key that one of its queries sees.
__device__ __forceinline__ KeyRange key_blocks(const AttentionParams& p, const Tile& t,
                                               int32_t tile) {
  const int32_t first = tile * kQueries, last = min(first + kQueries, t.q_rows) - 1;
  return {visible(p, t, first).first / kKeys, (visible(p, t, last).end + kKeys - 1) / kKeys};
}

}  // namespace gradient_wgmma

template <AttentionTraits S>
__global__ void __launch_bounds__(gradient_wgmma::kBeforeWarps * 32)
    attention_gradient_before(const __grid_constant__ AttentionGradientWgmmaParams g) {
  using namespace gradient_wgmma;
  constexpr int kLanes = S.d / 8, kRows = 32 / kLanes;  // of a row; of a warp at a time
  const AttentionParams& p = g.g.p;
  const Tile t = tile_at<S.packed_sequences, kQueries>(p, blockIdx.x);
  if (t.empty(p)) return;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
  const int64_t batch = S.packed_sequences ? 0 : t.batch;
  const int64_t tile = query_tile<S>(g, t, t.head, t.first / kQueries);
#pragma unroll 4
  for (int32_t i = static_cast<int32_t>(threadIdx.x) / kLanes; i < kQueries;
       i += kBeforeWarps * kRows) {
    const bool there = t.first + i < t.q_rows;
    const int64_t row = t.q_from + static_cast<int64_t>(t.first) + i;
    float delta = 0;
    if (there) {
      const int64_t o = batch * p.o_at[0] + row * p.o_at[1] + t.head * p.o_at[2];
      const int64_t d = batch * g.g.dout_at[0] + row * g.g.dout_at[1] + t.head * g.g.dout_at[2];
      const auto of_o = load_vec<S.type, 8, 16>(p.o, o + lane % kLanes * 8);
      const auto of_d = load_vec<S.type, 8, 16>(g.g.dout, d + lane % kLanes * 8);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const FloatPair a = unpack_pair<S.type>(of_o.words[j]);
        const FloatPair b = unpack_pair<S.type>(of_d.words[j]);
        delta = fmaf(a.low, b.low, fmaf(a.high, b.high, delta));
      }
    }
#pragma unroll
    for (int k = kLanes / 2; k > 0; k /= 2) delta += __shfl_xor_sync(0xffffffffu, delta, k);
    if (lane % kLanes != 0) continue;
    float lse = minus_infinity();
    if (there) {
      lse = load_row_value(p.lse, batch * p.lse_at[0] + t.head * p.lse_at[1] + row * p.lse_at[2]);
      if (g.g.dlse != nullptr)
        delta -= load_row_value(
            g.g.dlse, batch * g.g.dlse_at[0] + t.head * g.g.dlse_at[1] + row * g.g.dlse_at[2]);
    }
    g.lse[tile * kQueries + i] = lse == minus_infinity() ? -minus_infinity() : lse * kLog2E;
    g.g.delta[tile * kQueries + i] = delta;
  }
  if (threadIdx.x == 0) g.turns[tile] = 0;
}

template <AttentionTraits S>
__global__ void __launch_bounds__(256)
    attention_gradient_after(const __grid_constant__ AttentionGradientWgmmaParams g) {
  using namespace gradient_wgmma;
  constexpr int kColumns = S.d / 2;  // of a warpgroup
  const AttentionParams& p = g.g.p;
  const Tile t = tile_at<S.packed_sequences, kQueries>(p, blockIdx.x);
  if (t.empty(p)) return;
  const int32_t thread = static_cast<int32_t>(threadIdx.x) % 128, lane = thread % 32;
  const int32_t group = static_cast<int32_t>(threadIdx.x) / 128;
  const int64_t tile = query_tile<S>(g, t, t.head, t.first / kQueries);
  const KeyRange met = key_blocks(p, t, t.first / kQueries);
  float sums[kColumns / 2];
  const auto* const from = reinterpret_cast<const float4*>(g.dq + tile * kQueries * S.d) +
                           group * (kQueries * S.d / 8) + thread;
#pragma unroll
  for (int i = 0; i < kColumns / 8; ++i) {
    const float4 x = met.first < met.end ? from[i * 128] : float4{0, 0, 0, 0};
    sums[4 * i] = x.x, sums[4 * i + 1] = x.y, sums[4 * i + 2] = x.z, sums[4 * i + 3] = x.w;
  }
  const int64_t batch = S.packed_sequences ? 0 : t.batch;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int32_t row = t.first + thread / 32 * 16 + lane / 4 + 8 * r;
    const int64_t at = t.q_from + static_cast<int64_t>(row);
    uint16_t* const out = static_cast<uint16_t*>(g.g.dq) + batch * g.g.dq_at[0] +
                          at * g.g.dq_at[1] + t.head * g.g.dq_at[2] + group * kColumns +
                          lane % 4 * 8;
#pragma unroll
    for (int i = 0; i < kColumns / 8; i += 4) {
      uint32_t words[4];
#pragma unroll
      for (int j = 0; j < 4; ++j)
        words[j] = pack_pair<S.type>(sums[4 * (i + j) + 2 * r] * p.scale,
                                     sums[4 * (i + j) + 2 * r + 1] * p.scale);
      gather_quad(words);
      if (row < t.q_rows)
        *reinterpret_cast<uint4*>(out + i * 8) = {words[0], words[1], words[2], words[3]};
    }
  }
}

}  // namespace dlblas::attention
