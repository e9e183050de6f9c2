// What the host code and the CUDA kernels of batched products share: what the Problem fixes, the
// candidate tiles, the strides between matrices.
// In: nothing but plain values; read by the host compiler and by NVRTC.
// Read next: batched_mma.cuh, batched_fma.cuh.
#pragma once

#include "ops/gemm/matmul/cuda/matmul_gpu_config.hpp"

namespace dlblas::gemm {

struct BatchedTraits {
  GemmTraits gemm;
  MatmulEpilogueTraits epilogue;
};

/// Knob of both forms: an index into their tiles.
struct BatchedConfig {
  int32_t tile;
};

/// At most 64 × 64 sums per warp; tiles of few rows are for small matrices.
inline constexpr GemmMmaConfig kBatchedMmaTiles[] = {
    {128, 128, 64, 3, 2, 2, 4, 1}, {128, 64, 64, 4, 2, 2, 4, 1}, {64, 128, 64, 4, 2, 2, 4, 1},
    {64, 64, 64, 4, 2, 2, 4, 1},   {32, 64, 64, 4, 1, 2, 1, 1},  {16, 64, 64, 4, 1, 2, 1, 1},
};
inline constexpr int kBatchedMmaCount = sizeof kBatchedMmaTiles / sizeof kBatchedMmaTiles[0];
inline constexpr GemmFmaConfig kBatchedFmaTiles[] = {
    {128, 128, 16, 8, 8}, {128, 64, 16, 8, 4}, {64, 64, 16, 4, 4}, {32, 32, 16, 4, 4}};
inline constexpr int kBatchedFmaCount = sizeof kBatchedFmaTiles / sizeof kBatchedFmaTiles[0];

/// Matrices are spread along grid.y first, then along grid.z.
inline constexpr int64_t kBatchedRow = 32768;

/// Strides in elements.
struct BatchedStrides {
  int64_t matrices, a, b, out;
};
template <typename Epilogue>
struct BatchedParams {
  GemmParams<Epilogue> product;
  BatchedStrides batch;
};

}  // namespace dlblas::gemm
