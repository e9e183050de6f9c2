// Interface of the host and the CUDA kernels of attention over paged caches: plain values.
// Read next: paged_rows.cuh, paged_decode.cuh.
#pragma once

#include "device/types.hpp"

namespace dlblas::attention {

struct PagedTraits {
  DType q, cache;
  int32_t depth, width;  // columns of keys and of values
  int32_t group;         // heads of q that share one of the cache
  int32_t page;          // keys of a page
  int32_t access;        // columns that a thread reads of a key or a value at a time
  bool causal, window, softcap, ragged;  // ragged: cu_seqlens_q
};

struct PagedRowsConfig {
  int32_t threads = 128;  // of a block, which has a head of a query
};

struct PagedDecodeConfig {
  int32_t warps = 4;   // of a block
  int32_t heads = 1;   // of the cache, of a block; the warps of a head have keys of their own
  int32_t keys = 16;   // of a tile
  int32_t stages = 3;  // tiles that a warp has in flight
  int32_t blocks = 2;  // of a multiprocessor
  bool bulk = false;   // rows come by Hopper's copy engine
};

/// Rows of q in a tile of decoding: heads that share a head of the cache.
constexpr int decode_rows(const PagedTraits& s) { return !s.ragged && s.group <= 8 ? 8 : 16; }
/// Bytes from one row of a tile in shared memory to the next: an odd multiple of 16, so that eight
/// rows hit all banks.
constexpr int decode_pitch(DType type, int columns) {
  return ((columns * size_of(type) + 15) / 16 | 1) * 16;
}
constexpr int decode_tile_bytes(const PagedTraits& s, const PagedDecodeConfig& c) {
  return c.keys * (decode_pitch(s.cache, s.depth) + decode_pitch(s.cache, s.width));
}
/// Shared memory of a warp: its ring, which holds its sums at the end.
constexpr int decode_warp_bytes(const PagedTraits& s, const PagedDecodeConfig& c) {
  const int ring = c.stages * decode_tile_bytes(s, c);
  const int sums = decode_rows(s) * (s.width + 4) * 4;
  return ring > sums ? ring : sums;
}
/// Strides in elements, in the order of the schema's dimensions. Absent tensors are null.
struct PagedParams {
  const void *q, *k, *v;
  void *o, *lse;
  const int32_t *table, *lengths, *starts, *indptr;
  const float *sinks, *k_scale, *v_scale;
  int64_t q_at[3], k_at[4], v_at[4], o_at[3], lse_at[2], table_at[2];
  int64_t lengths_at, starts_at, indptr_at, sinks_at;
  float scale, softcap;  // scale times log2 e, where there is no softcap
  int32_t window;
  int32_t queries, sequences, entries, heads;  // T, B, W, Hkv
  int32_t parts;                               // of a sequence's keys: paged_decode.cuh
  float *part_o, *part_lse;                    // of each part; null where there is one
};
static_assert(sizeof(PagedParams) == 12 * 8 + 22 * 8 + 4 * 8 + 16, "host and device read the same");

}  // namespace dlblas::attention
