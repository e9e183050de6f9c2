// Rotates heads of q and k on their way into a kernel of attention: pairs (i, i + d/2) of a row, by
// the tables' row of its position, in f32, rounded to their type as apply_rotary_pos_emb rounds
// them: o_l = l·cos_l − h·sin_l, o_h = h·cos_h + l·sin_h. In: rows of heads in memory, or a tile in
// shared memory. Out: tiles of rotated rows in shared memory.
// Read next: attention_mma.cuh, attention_wgmma.cuh.
#pragma once

#include "device/shared.cuh"
#include "ops/attention/cuda/attention_load.cuh"

namespace dlblas::attention {

/// Offsets of a position's rows in the tables.
struct TableRow {
  int64_t cos, sin;
};
__device__ __forceinline__ TableRow table_row(const AttentionParams& p, int32_t batch,
                                              int64_t position) {
  return {batch * p.cos_at[0] + position * p.cos_at[1],
          batch * p.sin_at[0] + position * p.sin_at[1]};
}

/// Rotates eight pairs from column `column` on, in place: `low` and `high` hold words of both
/// halves. Table rows must be at multiples of 16 bytes, and d a multiple of 16.
template <AttentionTraits S>
__device__ __forceinline__ void turn_eight(const AttentionParams& p, const TableRow& row,
                                           int32_t column, uint32_t (&low)[4],
                                           uint32_t (&high)[4]) {
  const int32_t half = p.d / 2;
  const auto cos_low = load_vec<S.tables, 8, 16>(p.cos, row.cos + column);
  const auto sin_low = load_vec<S.tables, 8, 16>(p.sin, row.sin + column);
  const auto cos_high = load_vec<S.tables, 8, 16>(p.cos, row.cos + half + column);
  const auto sin_high = load_vec<S.tables, 8, 16>(p.sin, row.sin + half + column);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const FloatPair l = unpack_pair<S.type>(low[i]), h = unpack_pair<S.type>(high[i]);
    const FloatPair cl = cos_low.pair(i), sl = sin_low.pair(i);
    const FloatPair ch = cos_high.pair(i), sh = sin_high.pair(i);
    low[i] =
        pack_pair<S.type>(l.low * cl.low - h.low * sl.low, l.high * cl.high - h.high * sl.high);
    high[i] =
        pack_pair<S.type>(h.low * ch.low + l.low * sh.low, h.high * ch.high + l.high * sh.high);
  }
}

/// As load_tile, for rotated rows, by loads and stores, which the barrier after cp_async_wait()
/// makes visible. `row_of` gives a row's offset and position.
template <AttentionTraits S, int kRows, int kThreads, typename RowOf>
__device__ __forceinline__ void load_turned(unsigned char* to, const void* base,
                                            int64_t column_step, const AttentionParams& p,
                                            int32_t batch, const RowOf& row_of) {
  constexpr bool kWide = S.in == Reach::kWide && S.tables_in == Reach::kWide;
  constexpr int kPairs = kWide ? 8 : 1, kPlaces = S.d / 2 / kPairs;
  const int32_t half = p.d / 2;
#pragma unroll(kWide ? 2 : 1)
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kPlaces; i += kThreads) {
    const int row = i / kPlaces, column = i % kPlaces * kPairs;
    int64_t offset = 0, position = 0;
    const bool there = row_of(row, offset, position) && column < half;
    // Pairs past the last one are the padding columns after the head.
    const int first = column < half ? column : p.d + 2 * (column - half);
    const int second = column < half ? half + column : first + kPairs;
    unsigned char* const line = to + row * mma_pitch(S.d);
    const TableRow tables = table_row(p, batch, position);
    if constexpr (kWide) {
      uint32_t low[4] = {0, 0, 0, 0}, high[4] = {0, 0, 0, 0};
      if (there) {
        const auto l = load_vec<S.type, 8, 16>(base, offset + column);
        const auto h = load_vec<S.type, 8, 16>(base, offset + half + column);
#pragma unroll
        for (int j = 0; j < 4; ++j) low[j] = l.words[j], high[j] = h.words[j];
        turn_eight<S>(p, tables, column, low, high);
      }
      store_shared(shared_address(line + first * 2), low);
      store_shared(shared_address(line + second * 2), high);
    } else {
      float low = 0, high = 0;
      if (there) {
        const auto factor = [&](const void* table, int64_t at) {
          constexpr Reach kReach = S.tables_in == Reach::kByte ? Reach::kByte : Reach::kElement;
          return load_one<S.tables, kReach>(table, at);
        };
        constexpr Reach kReach = S.in == Reach::kByte ? Reach::kByte : Reach::kElement;
        const float l = load_one<S.type, kReach>(base, offset + column * column_step);
        const float h = load_one<S.type, kReach>(base, offset + (half + column) * column_step);
        const int64_t cos = tables.cos + column * p.cos_at[2], cos_step = half * p.cos_at[2];
        const int64_t sin = tables.sin + column * p.sin_at[2], sin_step = half * p.sin_at[2];
        low = l * factor(p.cos, cos) - h * factor(p.sin, sin);
        high = h * factor(p.cos, cos + cos_step) + l * factor(p.sin, sin + sin_step);
      }
      *reinterpret_cast<uint16_t*>(line + first * 2) = static_cast<uint16_t>(pack_one<S.type>(low));
      *reinterpret_cast<uint16_t*>(line + second * 2) =
          static_cast<uint16_t>(pack_one<S.type>(high));
    }
  }
}

}  // namespace dlblas::attention
