// What the block-scaled grouped products share. Their tensors are a, weight, offsets or counts,
// a_scale, weight_scale, and the result; in sums over a group's rows, b and b_scale stand where
// weight and its scales do.
// Read next: grouped_block_ref.hpp, ops/gemm/grouped/grouped.hpp.
#pragma once

#include "ops/gemm/grouped/grouped.hpp"

namespace dlblas::gemm {

inline constexpr int kGroupedAScale = 3, kGroupedWeightScale = 4, kGroupedBlockResult = 5;

/// Allows the oracle's error of the sums; below f32's normal range, its smallest step per part of
/// K; then one rounding to the result's dtype.
Bound grouped_block_bound(const GroupedOp& op, const Problem& problem);

std::vector<Implementation> grouped_block_cpu(const GroupedOp& op);
/// The first takes every layout and architecture; the second, e4m3 along K on Hopper, but no sums
/// over a group's rows, which are the third's.
Implementation grouped_block_cuda(const GroupedOp& op);
Implementation grouped_block_wgmma(const GroupedOp& op);
Implementation grouped_depth_wgmma(const GroupedOp& op);

}  // namespace dlblas::gemm
