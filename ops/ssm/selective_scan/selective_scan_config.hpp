// Interface of the host and the CUDA kernel of selective_scan: plain values.
// Read next: selective_scan.cuh.
#pragma once

#include "device/types.hpp"

namespace dlblas::ssm {

struct SelectiveScanTraits {
  DType u, delta, a, b, c;
  DType d, initial, z, bias;  // kAbsent: none
  bool softplus;
  bool wide;  // steps of all tensors are read and written kScanAccess at a time
};
inline constexpr int kScanAccess = 4;

struct SelectiveScanConfig {
  int32_t threads = 128;
  int32_t items = 4;     // steps of a thread, one after the other
  int32_t channels = 2;  // of a block, which share what is read of B and C
};

/// Strides in elements, in the order of the schema's dimensions.
struct SelectiveScanParams {
  void *y, *state;
  const void *u, *delta, *a, *b, *c, *d, *initial, *z, *bias;
  int64_t y_at[3], state_at[3], u_at[3], delta_at[3], a_at[2], b_at[4], c_at[4], d_at[1],
      initial_at[3], z_at[3], bias_at[1];
  int64_t length;
  int32_t width;                   // N
  int32_t groups, group_channels;  // of a batch; of a group
  int32_t blocks;                  // of the grid, a group
};
static_assert(sizeof(SelectiveScanParams) == 8 * (11 + 30 + 1 + 2),
              "host and device read the same");

}  // namespace dlblas::ssm
