// Interface of the host and the CUDA kernels of latent attention: plain values.
// Read next: mla_rows.cuh, mla_decode.cuh, mla_wgmma.cuh.
#pragma once

#include "device/tensor_map.hpp"

namespace dlblas::attention {

struct MlaTraits {
  DType type, cache;       // of q and o; of both parts of keys: the same, or f8
  int32_t latent, rotary;  // columns of the parts of a key
  int32_t page;            // keys of a page
  int32_t access;          // columns that a thread reads at a time
  bool scaled;             // ckv_scale or kpe_scale is given
};

struct MlaRowsConfig {
  int32_t threads = 256;  // of a block, which has a head of a token
};

struct MlaDecodeConfig {
  int32_t rows = 16;   // heads of a block: a multiple of 16
  int32_t keys = 64;   // of a tile: a multiple of 16
  int32_t stages = 2;  // tiles in shared memory
  int32_t blocks = 1;  // of a multiprocessor at a time
};

inline constexpr int32_t kMlaFew = 4;  // parts of a row that some warps join; a block joins more
constexpr int32_t mla_join_warps(int32_t latent) { return latent > 256 ? latent / 256 : 1; }

struct MlaWgmmaConfig {
  int32_t least = 2;    // tiles of keys of a part, at least
  int32_t cluster = 2;  // blocks that join their parts of a sequence in shared memory, at most
};

/// Strides in elements, in the order of the schema's dimensions.
struct MlaParams {
  const void *q_nope, *q_pe, *ckv, *kpe;
  void *o, *lse;
  const int32_t *table, *lengths;
  const float *ckv_scale, *kpe_scale;  // null: 1
  int64_t q_nope_at[3], q_pe_at[3], ckv_at[3], kpe_at[3], o_at[3], lse_at[2], table_at[2];
  int64_t lengths_at;
  float scale;                                    // times log2 e
  int32_t tokens, heads, entries, parts, blocks;  // blocks: of the heads of a token
  float *part_o, *part_lse;                       // of each part; null where there is one
};
static_assert(sizeof(MlaParams) == 10 * 8 + 19 * 8 + 8 + 24 + 16, "host and device read the same");

struct MlaWgmmaParams {
  TensorMap q_nope, q_pe;  // dimensions (column, head, token)
  TensorMap ckv, kpe;      // (column, key of a page, page)
  MlaParams p;
};

}  // namespace dlblas::attention
