// Interface of the host and the CUDA kernel of gated_delta_rule_packed: plain values. Read next:
// gated_delta_rule_packed.cuh.
#pragma once

#include "device/types.hpp"

namespace dlblas::ssm {

struct DeltaTraits {
  DType q, v, g, beta, state;  // q: of k, too
  DType offsets;
  bool l2norm;
  bool aligned;  // every element is aligned to its size
};

/// A block has this many columns of a head's state, one per lane, and this many parts of its rows.
inline constexpr int kDeltaColumns = 32, kDeltaParts = 8;
inline constexpr int kDeltaThreads = kDeltaColumns * kDeltaParts;
inline constexpr float kDeltaEps = 1e-6f;  // beside Σx² of qk_l2norm

/// Strides in elements, in the order of the schema's dimensions.
struct DeltaParams {
  const void *q, *k, *v, *g, *beta, *offsets;
  void *state, *o;
  int64_t q_at[3], k_at[3], v_at[3], g_at[2], beta_at[2], state_at[4], o_at[3], offsets_at;
  int64_t heads, repeats, rows, columns;  // H, R, K, V
  int64_t column_blocks;
  float scale;
};

}  // namespace dlblas::ssm
