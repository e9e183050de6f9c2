// What the host code and the CUDA kernels of grouped products share: what the Problem fixes, the
// candidate tiles, the epilogue's parameters.
// Read next: grouped_mma.cuh, grouped_fma.cuh, device/gemm/groups_config.hpp.
#pragma once

#include "device/gemm/groups_config.hpp"

namespace dlblas::gemm {

struct GroupedTraits {
  GemmTraits gemm;
  GroupTraits groups;
  GemmOutTraits out;
};

/// Parameters of the epilogue, which rounds once.
struct GroupedOut {
  GemmOut out;
};

/// Knob of both forms: an index into their tiles.
struct GroupedConfig {
  int32_t tile;
};

/// At most 64 × 64 sums per warp; tiles of few rows are for groups of few rows.
inline constexpr GemmMmaConfig kGroupedMmaTiles[] = {
    {128, 128, 64, 3, 2, 2, 8, 1}, {64, 128, 64, 3, 2, 2, 8, 1}, {64, 64, 64, 4, 2, 2, 8, 1},
    {32, 128, 64, 4, 1, 4, 8, 1},  {16, 128, 64, 4, 1, 4, 8, 1},
};
inline constexpr int kGroupedMmaCount = sizeof kGroupedMmaTiles / sizeof kGroupedMmaTiles[0];
/// f32 multiply-adds, any layout.
inline constexpr GemmFmaConfig kGroupedFmaTiles[] = {
    {128, 64, 16, 8, 4}, {64, 64, 16, 4, 4}, {32, 64, 16, 4, 4}};
inline constexpr int kGroupedFmaCount = sizeof kGroupedFmaTiles / sizeof kGroupedFmaTiles[0];

}  // namespace dlblas::gemm
