// What hosts and the CUDA kernels of attention's gradient agree on: plain values.
// Read next: attention_gradient_mma.cuh, attention_gradient_rows.cuh.
#pragma once

#include "ops/attention/attention_cuda_config.hpp"

namespace dlblas::attention {

struct AttentionGradientMmaConfig {
  int32_t warps = 4;    // along rows of a block, 16 each
  int32_t halves = 1;   // parts of the columns of its sums, with that many times the warps
  int32_t others = 32;  // rows that it meets at a time
};
struct AttentionGradientRowsConfig {
  int32_t warps = 4;  // of a block, with kRowsOfWarp rows each
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

}  // namespace dlblas::attention
