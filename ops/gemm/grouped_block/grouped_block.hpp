// What the operators of grouped products with scales of blocks share; tensors are a, weight,
// offsets or counts, a_scale, weight_scale, and the result.
// Read next: grouped_block_ref.hpp, ops/gemm/grouped/grouped.hpp.
#pragma once

#include "ops/gemm/grouped/grouped.hpp"

namespace dlblas::gemm {

inline constexpr int kGroupedAScale = 3, kGroupedWeightScale = 4, kGroupedBlockResult = 5;

std::vector<Implementation> grouped_block_cpu(const GroupedOp& op);
Implementation grouped_block_cuda(const GroupedOp& op);

}  // namespace dlblas::gemm
