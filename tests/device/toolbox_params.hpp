// Parameters of the toolbox's test kernels: shared by tests/cpp/test_device_toolbox.cpp and NVRTC.
#pragma once

#include "device/tensor_map.hpp"

namespace dlblas {

struct PhasesParams {
  int32_t* wrong;  // one count per thread
  int32_t rounds;
};

/// Copies boxes of 16-bit elements between a tensor and `dense`, the plain row-major array of all
/// boxes of the grid, edges included.
struct CopyParams {
  TensorMap map;
  uint16_t* dense;
  int32_t x, y, z;  // the first box's corner in the tensor; a load's may be negative
};

struct MulticastParams {
  TensorMap map;
  uint16_t* dense;  // [blocks, rounds, 64, 64]: what each block of the cluster saw
  int32_t rounds;
};

struct ChainParams {
  const int32_t* from;
  int32_t* to;
  int32_t count;
};

/// d[m, n] = A·B in f32, where n is the width of one tile.
struct WgmmaParams {
  TensorMap a, b;
  float* d;
  int32_t m, n, k;
};
static_assert(sizeof(WgmmaParams) == 320, "the same on both sides");

/// Template argument of the GEMM kernel.
struct WgmmaTraits {
  int32_t width;    // N of the instruction and of a block's tile
  bool bf16;        // else f16
  bool a_mn, b_mn;  // A as [K, M], B as [K, N]; else [M, K] and [N, K]
  int32_t stages;
};
inline constexpr int32_t kWgmmaDepth = 64;  // of K, one stage: a row of the swizzle
inline constexpr int32_t kWgmmaRows = 128;  // of M, one block: two warpgroups
constexpr int32_t wgmma_stage_bytes(WgmmaTraits s) { return (kWgmmaRows + s.width) * 128; }
constexpr int32_t wgmma_shared_bytes(WgmmaTraits s) {
  return s.stages * (wgmma_stage_bytes(s) + 16) + 1024;  // barriers, and room to align
}

}  // namespace dlblas
