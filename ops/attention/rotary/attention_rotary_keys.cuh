// Writes rotated keys, packed, for the next kernel: attention_wgmma, whose copy engine needs them
// in memory. A block takes some positions, a thread eight pairs of a head at one position.
// In: TurnKeysParams; rows of k and of the tables at multiples of 16 bytes. Out: k [B, S, Hkv, D].
// Flow: call > validate > select > compile > [launch].  Read next: attention_rotary.cuh.
#pragma once

#include "device/pdl.cuh"
#include "ops/attention/rotary/attention_rotary.cuh"

namespace dlblas::attention {

template <AttentionTraits S>
__global__ void __launch_bounds__(kTurnThreads)
    turn_keys(const __grid_constant__ TurnKeysParams g) {
  const AttentionParams& p = g.p;
  launch_dependents();
  const uint32_t chunks = S.d / 16, each = static_cast<uint32_t>(p.heads) * chunks;
  const uint32_t tokens = static_cast<uint32_t>(p.batches) * static_cast<uint32_t>(p.k_rows);
  for (uint32_t i = threadIdx.x; i < g.tokens * each; i += kTurnThreads) {
    const uint32_t token = blockIdx.x * g.tokens + i / each;
    if (token >= tokens) return;
    const uint32_t head = i % each / chunks, column = i % chunks * 8;
    const auto batch = static_cast<int32_t>(token / static_cast<uint32_t>(p.k_rows));
    const auto position = static_cast<int32_t>(token % static_cast<uint32_t>(p.k_rows));
    const int64_t from = batch * p.k_at[0] + position * p.k_at[1] + head * p.k_at[2] + column;
    const auto l = load_vec<S.type, 8, 16>(p.k, from);
    const auto h = load_vec<S.type, 8, 16>(p.k, from + S.d / 2);
    uint32_t low[4], high[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) low[j] = l.words[j], high[j] = h.words[j];
    turn_eight<S>(p, table_row(p, batch, position), static_cast<int32_t>(column), low, high);
    const int64_t to = (int64_t{token} * p.heads + head) * S.d + column;
    uint16_t* const row = static_cast<uint16_t*>(g.to) + to;
    *reinterpret_cast<uint4*>(row) = {low[0], low[1], low[2], low[3]};
    *reinterpret_cast<uint4*>(row + S.d / 2) = {high[0], high[1], high[2], high[3]};
  }
}

}  // namespace dlblas::attention
