// Arranges the scales of blocks as cuBLASLt reads them: 32 × 32 per block, through shared memory,
// so both reads and writes are coalesced. In: scales of any strides. Out: those of a with the rows
// of a contiguous, those of b with the groups of K contiguous, padded with zeros. Read next:
// scaled_cublaslt.cpp.
#pragma once

#include "device/types.hpp"
#include "ops/gemm/scaled/scaled_gpu_config.hpp"

namespace dlblas::gemm::scaled {

template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    scaled_arrange(const __grid_constant__ ScaledArrangeParams p) {
  constexpr int kTile = ScaledArrangeParams::kTile;
  static_assert(kThreads == ScaledArrangeParams::kThreads && kTile * kTile % kThreads == 0);
  __shared__ float tile[kTile][kTile + 1];  // [outer][inner]
  const bool of_a = blockIdx.x < p.tiles_a;
  const ScaledArrangeParams::Matrix& x = of_a ? p.a : p.b;
  const uint32_t block = of_a ? blockIdx.x : blockIdx.x - p.tiles_a;
  const auto across = static_cast<uint32_t>((x.pitch + kTile - 1) / kTile);
  const int64_t inner0 = int64_t{block % across} * kTile, outer0 = int64_t{block / across} * kTile;
  const int thread = static_cast<int>(threadIdx.x);
  const bool inner_first = x.along == 1;
#pragma unroll
  for (int i = thread; i < kTile * kTile; i += kThreads) {
    const int o = inner_first ? i / kTile : i % kTile, in = inner_first ? i % kTile : i / kTile;
    const bool inside = outer0 + o < x.outer && inner0 + in < x.inner;
    tile[o][in] = inside ? x.from[(outer0 + o) * x.across + (inner0 + in) * x.along] : 0.f;
  }
  __syncthreads();
#pragma unroll
  for (int i = thread; i < kTile * kTile; i += kThreads) {
    const int o = i / kTile, in = i % kTile;
    if (outer0 + o < x.outer && inner0 + in < x.pitch)
      x.to[(outer0 + o) * x.pitch + inner0 + in] = tile[o][in];
  }
}

}  // namespace dlblas::gemm::scaled
