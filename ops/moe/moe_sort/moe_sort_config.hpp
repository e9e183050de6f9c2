// Shared by the host and the CUDA kernels of moe_sort. Read next: moe_sort.cuh.
#pragma once

#include "ops/moe/sort/sort_config.hpp"

namespace dlblas::moe {

struct MoeListParams {
  MoeSortParams sort;
  MoeColumn rows, offsets;
  void* inverse;  // [T, topk]
  int64_t inverse_outer, inverse_inner;
};
static_assert(sizeof(MoeListParams) == 136, "host and device read the same bytes");

}  // namespace dlblas::moe
