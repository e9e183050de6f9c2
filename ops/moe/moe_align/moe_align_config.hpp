// Shared by the host and the CUDA kernel of moe_align. Read next: moe_align.cuh.
#pragma once

#include "ops/moe/sort/sort_config.hpp"

namespace dlblas::moe {

struct MoeAlignParams {
  MoeSortParams sort;
  MoeColumn sorted_ids, expert_ids, num_padded;
  int64_t extent;  // of sorted_ids
  int64_t blocks;  // of expert_ids
};
static_assert(sizeof(MoeAlignParams) == 144, "host and device read the same bytes");

}  // namespace dlblas::moe
