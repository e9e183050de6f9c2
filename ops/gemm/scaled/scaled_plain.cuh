// Copies codes of any strides to a plain matrix of rows along K, for kernels that read no other: 64
// rows × 64 of K per block, through shared memory, so both reads and writes are coalesced.
// In: a matrix of bytes. Out: rows at multiples of 16 bytes, zero from K to the pitch.
// Read next: scaled_wgmma_cuda.cpp.
#pragma once

#include "device/types.hpp"
#include "ops/gemm/scaled/scaled_gpu_config.hpp"

namespace dlblas::gemm::scaled {

template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    scaled_plain(const __grid_constant__ ScaledPlainParams p) {
  constexpr int kTile = ScaledPlainParams::kTile, kPitch = kTile + 4;
  static_assert(kThreads == ScaledPlainParams::kThreads && kTile * kTile % (16 * kThreads) == 0);
  __shared__ __align__(4) uint8_t tile[kTile * kPitch];  // [row][k]
  const auto blocks_k = static_cast<uint32_t>((p.pitch + kTile - 1) / kTile);
  const int64_t row0 = int64_t{blockIdx.x / blocks_k} * kTile;
  const int64_t k0 = int64_t{blockIdx.x % blocks_k} * kTile;
  const int thread = static_cast<int>(threadIdx.x);
  const bool along_k = p.col == 1;
#pragma unroll
  for (int i = thread; i < kTile * kTile; i += kThreads) {
    const int row = along_k ? i / kTile : i % kTile, k = along_k ? i % kTile : i / kTile;
    const bool inside = row0 + row < p.rows && k0 + k < p.k;
    tile[row * kPitch + k] = inside ? p.from[(row0 + row) * p.row + (k0 + k) * p.col] : uint8_t{0};
  }
  __syncthreads();
#pragma unroll
  for (int i = thread; i < kTile * kTile / 4; i += kThreads) {
    const int row = i / (kTile / 4), k = i % (kTile / 4) * 4;
    if (row0 + row < p.rows && k0 + k < p.pitch)
      *reinterpret_cast<uint32_t*>(p.to + (row0 + row) * p.pitch + k0 + k) =
          *reinterpret_cast<const uint32_t*>(tile + row * kPitch + k);
  }
}

}  // namespace dlblas::gemm::scaled
