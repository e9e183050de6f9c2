// What the host code and the CUDA kernel of the block-scaled grouped products share.
// Read next: grouped_block.cuh, device/gemm/groups_config.hpp.
#pragma once

#include "device/gemm/groups_config.hpp"

namespace dlblas::gemm {

struct GroupedBlockTraits {
  DType type;  // of a and weight: f8
  GroupTraits groups;
  GemmOutTraits out;
  /// Rows of a and weight come in runs of 16 bytes, and K in whole ones; for kDepth, whose K a
  /// problem does not fix, the first alone.
  bool whole;
  bool aligned_scales;  // to their size
};
struct GroupedBlockConfig {
  int32_t tile;
};
struct GroupedBlockTile {
  int32_t block_m, block_n, warps_m, warps_n;
};
/// All columns of a tile share one block of scales.
inline constexpr GroupedBlockTile kGroupedBlockTiles[] = {
    {64, 64, 2, 2}, {32, 128, 1, 4}, {16, 128, 1, 4}};
inline constexpr int kGroupedBlockCount = sizeof kGroupedBlockTiles / sizeof kGroupedBlockTiles[0];
inline constexpr int kGroupedBlockThreads = 128;

struct GroupedBlockOut {
  GemmOut out;
};
struct GroupedBlockParams {
  GemmCall gemm;
  GroupedBlockOut epilogue;
  GroupCall groups;
  const void* a_scale;
  const void* weight_scale;
  int64_t a_scale_group, a_scale_row, a_scale_col;                 // of a group: masked ones alone
  int64_t weight_scale_group, weight_scale_row, weight_scale_col;  // kDepth: a row is a column of b
};

}  // namespace dlblas::gemm
