// Parameters of grouped products on WGMMA, shared by the host and NVRTC. Read next:
// wgmma_groups.cuh.
#pragma once

#include "device/gemm/groups_config.hpp"
#include "device/gemm/wgmma_config.hpp"

namespace dlblas {

struct GroupedWgmmaCall {
  // a (no map if gathered), out: rows of all groups; b: the groups' matrices one below another
  GemmWgmmaCall product;
  GroupCall groups;
  GemmOut out;
};

/// What arrives at a stage that all 128 copying threads fill: each of them, and the one that
/// announces the copy engine's bytes.
inline constexpr int32_t kCopyingArrivals = 129;
/// Gathered rows: where a call has A, as {data, elements from row to row}.
inline constexpr int32_t kGroupGatheredA = 0;

/// Sums of codes over the rows of groups (wgmma_depth_codes.cuh): terms of a block; where a call
/// has the blocks' scales, f32, {data, elements from block to block}: a block's are adjacent, and
/// reach as far as tiles do. Those of B are in the order of depth_scale_place.
inline constexpr int32_t kDepthBlock = 128, kDepthAScale = 0, kDepthBScale = 1;
/// Scales of a stage.
constexpr int32_t depth_scale_count(const GemmWgmmaConfig& c) { return c.block_m + c.block_n; }
/// Where the scale of B's row `row` lies: of each 16, the four whose sums one thread has, columns
/// 2q, 2q + 1, 8 + 2q and 9 + 2q of a tile, are adjacent.
constexpr int64_t depth_scale_place(int64_t row) {
  return (row & ~int64_t{15}) | (row & 6) << 1 | (row & 8) >> 2 | (row & 1);
}

/// Shared memory for the table of groups, after the ring's.
constexpr int group_table_bytes(int64_t groups) { return static_cast<int>(12 * (groups + 1)); }

}  // namespace dlblas
