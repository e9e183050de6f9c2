// Interface of hosts and the CUDA kernels of attention: plain values.
// Read next: attention_mma.cuh, attention_rows.cuh.
#pragma once

#include "device/tensor_map.hpp"

namespace dlblas::attention {

/// How rows of a tensor are accessed.
enum class Reach : int32_t {
  kWide,     // 16 bytes at a time
  kElement,  // one element at a time, at any stride
  kByte,     // the same, at addresses that no element is aligned to
};

/// How the bias is accessed. cuda_wgmma alone loads pairs, and knows when a row serves all queries.
enum class BiasAccess : int32_t {
  kElement,     // one element at a time, at any stride
  kByte,        // the same, at addresses that no element is aligned to
  kPair,        // two elements side by side, at a multiple of their size
  kRowElement,  // as kElement, one row for all queries
  kRowPair,     // as kPair, one row for all queries
};
constexpr bool in_pairs(BiasAccess a) {
  return a == BiasAccess::kPair || a == BiasAccess::kRowPair;
}
constexpr bool of_one_row(BiasAccess a) {
  return a == BiasAccess::kRowElement || a == BiasAccess::kRowPair;
}

struct AttentionTraits {
  DType type;      // that tensor cores work in: of f8, f16
  DType from, to;  // of q, k and v; of o
  DType bias;      // kAbsent: none
  int32_t d, dv;   // of a head, rounded up to what the kernel works with
  Reach in, out;   // of q, k and v; of o
  BiasAccess bias_in;
  bool cap, packed_sequences;
  int32_t page;  // keys of a page; 0: keys lie in order
  DType cache;   // of k and v in pages
  bool rotary;   // q and k are rotated by tables: of `tables`, accessed as `tables_in`
  DType tables;
  Reach tables_in;
};

struct AttentionMmaConfig {
  int32_t warps = 4;  // of a block, with 16 rows each
  int32_t keys = 64;  // of a block of keys
};
struct AttentionRowsConfig {
  int32_t warps = 4;  // of a block, with kRowsOfWarp rows each
};
inline constexpr int kRowsOfWarp = 4;
/// Bytes of a key and its value from which blocks walk the tiles of some heads together: heads of
/// 128, 16 bits.
inline constexpr int kTogetherBytes = 512;
struct AttentionWgmmaConfig {
  int32_t groups = 2;      // warpgroups that multiply, 64 rows each
  int32_t keys = 128;      // of a block of keys
  int32_t stages = 2;      // blocks of K, and of V, in flight
  int32_t queries = 1;     // tiles of Q in flight
  bool turns = false;      // warpgroups issue products in turn: one's softmax beside another's
  bool persistent = true;  // a block walks tiles: the next one's copies beside this one's end
  bool draws = false;      // whichever tile is next when it is free, not every so many
};

/// Strides in elements: batch, row, head, column. Packed sequences have no batch.
struct AttentionParams {
  const void *q, *k, *v, *bias;
  void* o;
  float* lse;
  const int32_t *cu_q, *cu_k;
  const float* descale[3];  // of q, k and v, of f8; null: 1
  int64_t q_at[4], k_at[4], v_at[4], o_at[4];
  int64_t bias_at[4];  // batch, head, row, key
  int64_t lse_at[3];   // batch, head, row
  int64_t cu_q_at, cu_k_at;
  int64_t descale_at[3][2];  // sequence, head of k
  int32_t q_rows, k_rows;    // of a sequence; packed: of all
  int32_t batches, heads;    // heads of k
  int32_t group;             // query heads of each
  int32_t pack;              // query heads of a tile's position: 1 or group
  int32_t d, dv;
  int32_t tiles;   // of a head (and sequence)
  int32_t window;  // −1: none
  float scale, cap;
  int32_t causal;
  int32_t grid;                  // blocks of tiles; a launch may have fewer
  int32_t together;              // heads of q whose tiles are walked before those of others; 0: all
  int32_t apart;                 // 1: blocks share the tiles of these heads evenly by themselves
  const void *cos, *sin;         // of each position, for both halves of a head
  int64_t cos_at[3], sin_at[3];  // batch, row, column
};
static_assert(sizeof(AttentionParams) == 8 * (11 + 16 + 4 + 3 + 8 + 8) + 4 * 16,
              "host and device read the same");

/// Parameters of the launch that rotates keys: the destination, and positions per block.
struct TurnKeysParams {
  AttentionParams p;
  void* to;
  uint32_t tokens;
};
inline constexpr int kTurnThreads = 256;

/// Where the keys of paged sequences are, and what else paged_attention takes. Packed sequence n of
/// AttentionParams is sequence n − 1 here: number 0 holds the rows before the first.
struct AttentionPages {
  const int32_t *table, *lengths, *indptr;  // indptr: null, all begin at entry 0
  const float *sinks, *k_scale, *v_scale;   // null: none
  int64_t table_at[2], lengths_at, indptr_at, sinks_at;
  int32_t entries, sequences;
};
struct AttentionWgmmaParams {
  TensorMap q, k, v;  // dimensions (column, row, head, batch); of pages (column, key, head, page)
  AttentionParams p;
  AttentionPages pages;
  uint32_t* drawn;  // how many tiles blocks drew beside their first ones
};

}  // namespace dlblas::attention
