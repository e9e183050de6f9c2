// Shared by the host and the CUDA kernels of moe_permute. Read next: moe_permute.cuh.
#pragma once

#include "ops/moe/sort/sort_config.hpp"

namespace dlblas::moe {

struct MoePermuteParams {
  MoeSortParams sort;
  MoeColumn offsets;
  void* inverse;  // [T, topk]
  int64_t inverse_outer, inverse_inner;
};
static_assert(sizeof(MoePermuteParams) == 120, "host and device read the same bytes");

struct MoeCopyTraits {
  DType type;
  int32_t access;        // elements that a thread copies at a time
  bool aligned;          // elements are aligned to their size
  bool aligned_inverse;  // words of the map are
};
struct MoeCopyParams {
  const void* x;
  void* rows;
  const void* inverse;
  int64_t x_row, x_column, rows_row, rows_column;  // strides
  int64_t inverse_outer, inverse_inner;
  int64_t width;
  int32_t choices;
  int32_t unused;
};
static_assert(sizeof(MoeCopyParams) == 88, "host and device read the same bytes");

}  // namespace dlblas::moe
