// The tiles of the WGMMA form of batched products. Read next: batched_wgmma.cuh.
#pragma once

#include "device/gemm/wgmma_config.hpp"
#include "ops/gemm/batched/batched_config.hpp"

namespace dlblas::gemm {

constexpr GemmWgmmaConfig batched_tile(int32_t block_m, int32_t block_n, bool pingpong,
                                       int32_t stages) {
  return {.swapped = false,
          .block_m = block_m,
          .block_n = block_n,
          .block_k = 64,
          .warpgroups = 2,
          .pingpong = pingpong,
          .share = GemmShare::kNone,
          .cluster = 1,
          .stages = stages,
          .weight_once = false,
          .group_m = 8,
          .stream = false,
          .batched = true};
}

/// Matrices are rarely large, and the end of each tile costs a microsecond that two warpgroups in
/// turn hide: most are ping-pong.
inline constexpr GemmWgmmaConfig kBatchedWgmmaTiles[] = {
    batched_tile(128, 256, false, 4), batched_tile(256, 128, false, 4),
    batched_tile(128, 192, true, 4),  batched_tile(128, 160, true, 4),
    batched_tile(128, 128, true, 6),  batched_tile(128, 64, true, 8),
    batched_tile(64, 256, true, 4),   batched_tile(64, 128, true, 8),
    batched_tile(64, 64, true, 8),
};
inline constexpr int kBatchedWgmmaCount = sizeof kBatchedWgmmaTiles / sizeof kBatchedWgmmaTiles[0];

}  // namespace dlblas::gemm
