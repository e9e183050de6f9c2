// Interface of hosts and the code that multiplies by AMX tiles: rows of queries, 32 per tile, over
// blocks of keys. Plain values.
//
//   q   bf16, row after row, each padded with zeros to a multiple of 32 (TileSizes::d)
//   k   panels of 32 keys: pairs of terms of D, each of 32 keys        (cpu/gemm/pairs.hpp, b)
//   v   panels of 32 columns: pairs of keys, each of 32 columns
//   o   f32, row after row, padded as q (TileSizes::dv)
//
// Read next: attention_amx.cpp (the code), attention_tiles_cpu.hpp (calls it).
#pragma once

#include "device/types.hpp"

namespace dlblas::attention {

inline constexpr int64_t kTileQueries = 32;   // rows that meet a block together
inline constexpr int64_t kTileBlock = 256;    // keys of a block
inline constexpr int64_t kTileMultiple = 32;  // widths are padded to
constexpr int64_t tile_padded(int64_t n) {
  return (n + kTileMultiple - 1) / kTileMultiple * kTileMultiple;
}
/// Floats of a panel of 32 lanes over `depth` terms; pack_chunks places panels that far apart.
constexpr int64_t tile_panel(int64_t depth) {
  return kTileMultiple * (tile_padded(depth) + kTileMultiple) / 2;
}
/// Floats of a row of scores; the padding spreads rows over the sets of the L1 cache.
inline constexpr int64_t kTilePitch = kTileBlock + 16;

/// Rows of bf16 elements at strides.
struct TileSource {
  const void* data;
  int64_t row, column;
};

/// Tiles of rows against one block. Row r sees its keys [from[r], to[r]).
struct TileBlock {
  int64_t rows, d, dv;  // d and dv padded; so many rows that there are whole tiles
  int64_t count;        // keys of the block
  const void* q;
  const float *k, *v;
  const int32_t *from, *to;
  float *o, *most, *sum;  // most is in units of ln 2
  bool* begun;            // of a tile: whether o holds something
  float* scores;          // [kTileQueries][kTilePitch]
  float scale, cap;       // cap 0: none
  /// Returns what is added to a row's scores, from its first key on; null: nothing.
  const float* (*bias)(const void* self, int64_t row);
  const void* self;
  /// Values that are not finite are 0 in v, and added only to the rows that see them: `wild` holds
  /// the numbers of their keys, wild_rows those keys' f32 rows, dv apart, with 0 for finite values.
  int64_t num_wild;
  const int32_t* wild;
  const float* wild_rows;
};

struct AttentionTiles {
  /// Packs a row of `width` elements `step` apart, padded with zeros to a multiple of 32.
  void (*pack_query)(const void* from, int64_t step, int64_t width, void* to);
  void (*pack_keys)(const TileSource& from, int64_t count, int64_t width, float* to);
  /// Returns how many keys have values that are not finite; see TileBlock::wild.
  int64_t (*pack_values)(const TileSource& from, int64_t count, int64_t width, float* to,
                         int32_t* wild, float* wild_rows);
  void (*meet)(const TileBlock& block);
  /// to = bf16 of row · factor
  void (*finish)(const float* row, int64_t count, float factor, void* to);
  void (*widen)(DType type, const void* from, int64_t count, float* to);
};

}  // namespace dlblas::attention

namespace dlblas::avx512 {
attention::AttentionTiles attention_tiles();  // needs AMX
}
