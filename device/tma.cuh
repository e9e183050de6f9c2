// Hopper's copy engine: whole tiles between global and shared memory, each issued by one thread.
// In: a TensorMap in the kernel's parameters, a tile's coordinates in elements (innermost first).
// Loads count their bytes at an Mbarrier, always full tiles: elements outside the tensor load as
// zeros and are not stored. Shared addresses are multiples of 128 bytes; the 128-byte swizzle needs
// its tile at a multiple of 1024. Calls need sm_90 or later; including does not.
// Read next: device/wgmma.cuh.
#pragma once

#include "device/mbarrier.cuh"
#include "device/tensor_map.hpp"

namespace dlblas {

struct Tile2 {
  int32_t x, y;
};
struct Tile3 {
  int32_t x, y, z;
};

/// The 128-byte swizzle: the position of byte `offset` of a tile with rows of 128 bytes, relative
/// to the tile's start (a multiple of 1024 bytes). The 16-byte chunks of row r are permuted by r
/// mod 8, so a column of chunks touches all banks. It is its own inverse.
__host__ __device__ constexpr uint32_t swizzle_128(uint32_t offset) {
  return offset ^ ((offset >> 3) & 0x70);
}

/// Prefetches the map itself, so that the first copy does not wait for it.
__device__ __forceinline__ void tma_prefetch_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

__device__ __forceinline__ void tma_load(void* to, const TensorMap& map, Mbarrier& full, Tile2 at) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4}], [%2];" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(&full)), "r"(at.x), "r"(at.y)
      : "memory");
}

__device__ __forceinline__ void tma_load(void* to, const TensorMap& map, Mbarrier& full, Tile3 at) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(&full)), "r"(at.x), "r"(at.y), "r"(at.z)
      : "memory");
}

/// Delivers the tile to the same shared address of every block in `blocks` (bit: rank in the
/// cluster); its bytes count at each block's own barrier.
__device__ __forceinline__ void tma_load_multicast(void* to, const TensorMap& map, Mbarrier& full,
                                                   Tile2 at, uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%4, %5}], [%2], %3;" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(&full)), "h"(blocks), "r"(at.x), "r"(at.y)
      : "memory");
}

__device__ __forceinline__ void tma_load_multicast(void* to, const TensorMap& map, Mbarrier& full,
                                                   Tile3 at, uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%4, %5, %6}], [%2], %3;" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(&full)), "h"(blocks), "r"(at.x), "r"(at.y), "r"(at.z)
      : "memory");
}

/// The policies that createpolicy yields for a fraction of 1.0, as constants.
constexpr uint64_t cache_policy(CacheHint hint) {
  return hint == CacheHint::kFirst  ? 0x12F0000000000000ull
         : hint == CacheHint::kLast ? 0x14F0000000000000ull
                                    : 0x1000000000000000ull;
}
template <CacheHint kHint>
__device__ __forceinline__ void tma_load(void* to, const TensorMap& map, Mbarrier& full, Tile2 at) {
  if constexpr (kHint == CacheHint::kNone)
    tma_load(to, map, full, at);
  else
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        ".L2::cache_hint [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(shared_address(to)),
        "l"(&map), "r"(shared_address(&full)), "r"(at.x), "r"(at.y), "l"(cache_policy(kHint))
        : "memory");
}

/// Before it: every writer's fence_async_shared() and a barrier. After it: tma_store_commit(). The
/// tile may end outside the tensor; only loads take negative coordinates. Along the innermost
/// dimension the edge is clipped to 16 bytes, not to an element (H200, November 2026): it writes up
/// to 15 bytes beyond a row whose length is not a multiple of 16 bytes.
__device__ __forceinline__ void tma_store(const TensorMap& map, const void* from, Tile2 at) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(
          &map),
      "r"(shared_address(from)), "r"(at.x), "r"(at.y)
      : "memory");
}

__device__ __forceinline__ void tma_store(const TensorMap& map, const void* from, Tile3 at) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(
          &map),
      "r"(shared_address(from)), "r"(at.x), "r"(at.y), "r"(at.z)
      : "memory");
}

/// Closes the group of stores that this thread issued since the last commit.
__device__ __forceinline__ void tma_store_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/// Waits until at most `kPending` of this thread's groups still read shared memory: the source of
/// the others may be overwritten.
template <int kPending>
__device__ __forceinline__ void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

/// Waits until at most `kPending` of this thread's groups are not yet written. At the end of a
/// kernel, wait_read suffices.
template <int kPending>
__device__ __forceinline__ void tma_store_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace dlblas
