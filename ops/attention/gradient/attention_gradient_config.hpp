// Interface of hosts and the CUDA kernels of attention's gradient: plain values.
// Read next: attention_gradient_mma.cuh, attention_gradient_wgmma.cuh, attention_gradient_rows.cuh.
#pragma once

#include "ops/attention/cuda/attention_cuda_config.hpp"

namespace dlblas::attention {

struct AttentionGradientMmaConfig {
  int32_t warps = 4;    // along rows of a block, 16 each
  int32_t halves = 1;   // parts of the columns of its sums, with that many times the warps
  int32_t others = 32;  // rows that it meets at a time
};
struct AttentionGradientRowsConfig {
  int32_t warps = 4;  // of a block, with kRowsOfWarp rows each
};

/// A block holds 128 keys and iterates over tiles of 64 queries.
struct AttentionGradientWgmmaConfig {
  int32_t stages = 2;  // tiles of q, and of dout, in flight
  int32_t sums = 2;    // tiles of dq on their way to memory
  int32_t heads = 16;  // of k: all their blocks are launched before those of the next ones

  static constexpr int32_t kKeys = 128, kQueries = 64;
  /// For heads of d: K and V; the rings with their lse and delta; dS; dq; barriers.
  constexpr int32_t shared_bytes(int32_t d) const {
    return 1024 + 4 * kKeys * d + stages * (4 * kQueries * d + 8 * kQueries) +
           2 * kKeys * kQueries + 4 * sums * kQueries * d + 256;
  }
};

/// Strides as in AttentionParams, whose o and lse are the forward operator's results.
struct AttentionGradientParams {
  AttentionParams p;
  const void* dout;
  const float* dlse;  // null: none
  float* delta;       // [batch, head, row] side by side
  void *dq, *dk, *dv;
  int64_t dout_at[4], dq_at[4], dk_at[4], dv_at[4];
  int64_t dlse_at[3];
};
static_assert(sizeof(AttentionGradientParams) == sizeof(AttentionParams) + 8 * (6 + 16 + 3),
              "host and device read the same");

/// Tiles of kQueries queries. Those of a packed sequence begin at its first row / kQueries + its
/// number: no two sequences share a tile, and all tiles begin at a multiple of 16 bytes.
struct AttentionGradientWgmmaParams {
  TensorMap q, k, v, dout;  // dimensions (column, row, head, batch); packed: see tile_box()
  AttentionGradientParams g;
  float* lse;       // in base 2; +inf where a query sees nothing, or is none
  float* dq;        // sums before the scale, as the threads that made them hold them
  int32_t* turns;   // of each tile of dq: how many blocks have added to it
  int32_t q_tiles;  // of a head (and sequence)
  int32_t unused;
};

}  // namespace dlblas::attention
