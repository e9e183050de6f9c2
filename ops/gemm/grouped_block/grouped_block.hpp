// What the operators of grouped products with scales of blocks share; tensors are a, weight,
// offsets or counts, a_scale, weight_scale, and the result.
// Read next: grouped_block_ref.hpp, ops/gemm/grouped/grouped.hpp.
#pragma once

#include "ops/gemm/grouped/grouped.hpp"

namespace dlblas::gemm {

inline constexpr int kGroupedAScale = 3, kGroupedWeightScale = 4, kGroupedBlockResult = 5;

/// What the oracle says of the sums, or, below f32's normal range, its smallest step for each part;
/// then one rounding to the result's dtype.
Bound grouped_block_bound(const GroupedOp& op, const Problem& problem);

std::vector<Implementation> grouped_block_cpu(const GroupedOp& op);
/// Every layout and architecture; of e4m3 along K, Hopper's.
Implementation grouped_block_cuda(const GroupedOp& op);
Implementation grouped_block_wgmma(const GroupedOp& op);

}  // namespace dlblas::gemm
