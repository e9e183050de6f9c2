// Test kernels: tiles through the copy engine and back by plain loads and stores, so that swizzle,
// coordinates, edges and byte counts all show. In and out: 16-bit elements.
// Driven by tests/cpp/test_device_toolbox.cpp.
#pragma once

#include "device/cluster.cuh"
#include "device/tma.cuh"
#include "tests/device/toolbox_params.hpp"

namespace dlblas {

inline constexpr int32_t kBoxX = 64, kBoxY = 16, kBoxZ = 4;  // a row of 128 bytes, the swizzle's
inline constexpr int32_t kBoxElements = kBoxX * kBoxY;

/// Element i of a tile in shared memory, row-major as the tensor has it.
template <bool kSwizzled>
__device__ __forceinline__ uint16_t& element(unsigned char* tile, int32_t i) {
  const uint32_t offset = static_cast<uint32_t>(i) * 2;
  return *reinterpret_cast<uint16_t*>(tile + (kSwizzled ? swizzle_128(offset) : offset));
}

/// Where the element i of this block's box lies in the dense array of all boxes.
__device__ __forceinline__ int64_t dense_index(int32_t i) {
  const int64_t x = blockIdx.x * kBoxX + i % kBoxX;
  const int64_t y = blockIdx.y * kBoxY + i / kBoxX % kBoxY;
  const int64_t z = blockIdx.z * kBoxZ + i / kBoxElements;
  return (z * gridDim.y * kBoxY + y) * gridDim.x * kBoxX + x;
}

__device__ __forceinline__ Tile3 corner(const CopyParams& p) {
  return {p.x + static_cast<int32_t>(blockIdx.x) * kBoxX,
          p.y + static_cast<int32_t>(blockIdx.y) * kBoxY,
          p.z + static_cast<int32_t>(blockIdx.z) * kBoxZ};
}

__device__ __forceinline__ void init_one(Mbarrier& barrier, uint32_t arrivals) {
  if (threadIdx.x == 0) {
    barrier.init(arrivals);
    fence_mbarrier_init();
  }
  __syncthreads();
}

/// Tensor to dense: boxes of kRank dimensions.
template <int kRank, bool kSwizzled>
__global__ void tma_to_dense(const __grid_constant__ CopyParams p) {
  constexpr int32_t kElements = kRank == 3 ? kBoxElements * kBoxZ : kBoxElements;
  __shared__ alignas(1024) unsigned char tile[kElements * 2];
  __shared__ Mbarrier full;
  init_one(full, 1);
  if (threadIdx.x == 0) {
    tma_prefetch_map(p.map);
    // Two ways to the same count; the second announces half of the bytes early.
    if constexpr (kSwizzled) {
      full.arrive_expect_tx(sizeof(tile));
    } else {
      full.expect_tx(sizeof(tile) / 2);
      full.arrive_expect_tx(sizeof(tile) / 2);
    }
    const Tile3 at = corner(p);
    if constexpr (kRank == 3)
      tma_load(tile, p.map, full, at);
    else
      tma_load(tile, p.map, full, Tile2{at.x, at.y});
  }
  full.wait(0);
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < kElements; i += blockDim.x)
    p.dense[dense_index(i)] = element<kSwizzled>(tile, i);
}

/// Dense to tensor. The tile is filled twice, first with what must not survive: the second filling
/// waits until the first store has read.
template <int kRank, bool kSwizzled>
__global__ void tma_from_dense(const __grid_constant__ CopyParams p) {
  constexpr int32_t kElements = kRank == 3 ? kBoxElements * kBoxZ : kBoxElements;
  __shared__ alignas(1024) unsigned char tile[kElements * 2];
  for (int32_t round = 0; round < 2; ++round) {
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < kElements; i += blockDim.x)
      element<kSwizzled>(tile, i) = round == 0 ? uint16_t(0xdead) : p.dense[dense_index(i)];
    fence_async_shared();
    __syncthreads();
    if (threadIdx.x == 0) {
      const Tile3 at = corner(p);
      if constexpr (kRank == 3)
        tma_store(p.map, tile, at);
      else
        tma_store(p.map, tile, Tile2{at.x, at.y});
      tma_store_commit();
      if (round == 0)
        tma_store_wait<0>();  // two stores to one place are ordered by nothing else
      else
        tma_store_wait_read<0>();
    }
    __syncthreads();
  }
}

/// A cluster: each block loads its part of every tile for all, and refills it when all have read.
template <uint32_t kBlocks>
__global__ void tma_multicast(const __grid_constant__ MulticastParams p) {
  constexpr int32_t kElements = 64 * 64;
  constexpr uint32_t kPartBytes = kElements * 2 / kBlocks;
  __shared__ alignas(1024) unsigned char tile[kElements * 2];
  __shared__ Mbarrier full, empty;
  const uint32_t rank = cluster_rank();
  if (threadIdx.x == 0) empty.init(kBlocks);
  init_one(full, 1);
  cluster_sync();
  for (int32_t round = 0; round < p.rounds; ++round) {
    const uint32_t parity = round & 1;
    if (threadIdx.x == 0) {
      empty.wait_cluster(parity ^ 1);
      full.arrive_expect_tx(sizeof(tile));
      const Tile2 at{0, round * 64 + static_cast<int32_t>(rank * (64 / kBlocks))};
      tma_load_multicast(tile + rank * kPartBytes, p.map, full, at, (1 << kBlocks) - 1);
    }
    full.wait_cluster(parity);
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < kElements; i += blockDim.x)
      p.dense[(int64_t(blockIdx.x) * p.rounds + round) * kElements + i] = element<true>(tile, i);
    __syncthreads();
    if (threadIdx.x < kBlocks) empty.arrive_at(threadIdx.x);
  }
  cluster_sync();  // no arrival at a block that has ended
}

}  // namespace dlblas
