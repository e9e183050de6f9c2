// What the host code and the CUDA kernels of batched_scaled_mm share: tiles of the WGMMA form, the
// strides between matrices. In: nothing but plain values; read by the host compiler and by NVRTC.
// Read next: batched_scaled_mma.cuh, batched_scaled_wgmma.cuh.
#pragma once

#include "device/gemm/wgmma_config.hpp"
#include "ops/gemm/scaled/scaled_gpu_config.hpp"

namespace dlblas::gemm::scaled {

/// Matrices are spread along grid.y first, then along grid.z.
inline constexpr int64_t kBatchedScaledRow = 32768;

/// One call: its first matrix, and the strides between matrices, in elements.
struct BatchedScaledParams {
  ScaledParams first;
  int64_t matrices, a, b, out;
};

/// Knob of the WGMMA form: an index into its tiles.
struct BatchedScaledConfig {
  int32_t tile;
};

constexpr GemmWgmmaConfig batched_scaled_tile(int32_t block_m, int32_t block_n, int32_t stages) {
  return {.swapped = false,
          .block_m = block_m,
          .block_n = block_n,
          .block_k = 64,  // pairs of codes
          .warpgroups = block_m / 64,
          .pingpong = false,
          .share = GemmShare::kNone,
          .cluster = 1,
          .stages = stages,
          .weight_once = false,
          .group_m = 8,
          .stream = false,
          .batched = true};
}
/// At most 64 sums per thread: two sets of accumulators fit (device/gemm/wgmma_codes.cuh).
inline constexpr GemmWgmmaConfig kBatchedScaledTiles[] = {
    batched_scaled_tile(128, 128, 6), batched_scaled_tile(128, 64, 8),
    batched_scaled_tile(128, 32, 8),  batched_scaled_tile(64, 128, 8),
    batched_scaled_tile(64, 64, 8),   batched_scaled_tile(64, 32, 8),
};
inline constexpr int kBatchedScaledCount =
    sizeof kBatchedScaledTiles / sizeof kBatchedScaledTiles[0];

}  // namespace dlblas::gemm::scaled
