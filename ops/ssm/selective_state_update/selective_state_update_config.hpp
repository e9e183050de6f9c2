// Interface of the host and the CUDA kernel of selective_state_update: plain values.
// Read next: selective_state_update.cuh.
#pragma once

#include "device/types.hpp"

namespace dlblas::ssm {

struct StateUpdateTraits {
  DType state, x, dt, a, b, c;
  DType d, z, bias;  // kAbsent: none
  bool softplus;
  bool wide;        // rows of state, B and C are read `access` columns at a time
  bool wide_a;      // of A, too
  int32_t access;   // columns of a thread
  int32_t columns;  // N
};
/// Threads per row: a part of a warp, chosen by N alone, so that a row's sum has one order.
constexpr int state_update_lanes(const StateUpdateTraits& s) {
  int lanes = 1;
  while (lanes < 32 && lanes * s.access < s.columns) lanes *= 2;
  return lanes;
}

struct StateUpdateConfig {
  int32_t rows = 4;   // of the state, a thread's part of each loaded before the first is needed
  int32_t warps = 4;  // of a block
};

/// Strides in elements, in the order of the schema's dimensions.
struct StateUpdateParams {
  void *state, *y;
  const void *x, *dt, *a, *b, *c, *d, *z, *bias;
  int64_t state_at[4], x_at[3], dt_at[3], a_at[3], b_at[3], c_at[3], d_at[2], z_at[3], bias_at[2],
      y_at[3];
  int32_t heads, group_heads, blocks;  // of all groups; of a group; of the grid, a head
  int64_t channels;
};
static_assert(sizeof(StateUpdateParams) == 8 * (10 + 29 + 2 + 1), "host and device read the same");

}  // namespace dlblas::ssm
