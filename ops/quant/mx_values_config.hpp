// Plain structs shared by the host and the CUDA kernel of microscaling formats' values.
// Read next: ops/quant/mx_values.hpp, mx_values.cuh.
#pragma once

#include "device/dtype.hpp"
#include "device/view.hpp"

namespace dlblas::quant {

struct MxValuesTraits {
  DType q_type, scale_type, type;  // q_type: kU8 is two e2m1 codes
  int32_t group;                   // columns of y
  int32_t access;                  // columns of a thread
  bool plain;                      // rows lie at one stride, elements side by side
};

inline constexpr int kMxValuesThreads = 256;

/// One call. A block has 2^across threads along a row.
struct MxValuesParams {
  StridedView q, scale, y;
  int64_t q_row, scale_row, y_row;  // plain
  int64_t rows;
  const float* global;  // null: 1
  int32_t width, groups;
  uint32_t chunks;  // blocks side by side
  int32_t across;
};
static_assert(sizeof(MxValuesParams) == 3 * 144 + 5 * 8 + 4 * 4,
              "host and device read the same bytes");

}  // namespace dlblas::quant
