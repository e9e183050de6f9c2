// Clusters of blocks (sm_90 and later): a block's rank, barriers, the other blocks' shared memory.
// In: addresses in this block's shared memory. Out: writes that land at the same address in another
// block of the cluster. Rule: a block's memory may be written once it has started (one barrier
// after the start) and until it ends (a barrier after the last write).
// Read next: device/row/reduce.cuh, which sums a row over a cluster.
#pragma once

#include "device/mbarrier.cuh"

namespace dlblas {

/// This block's rank in its cluster, 0 to cluster_size − 1.
__device__ inline uint32_t cluster_rank() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// The two halves of a barrier over all threads of the cluster; writes before `arrive` are visible
/// after `wait`.
__device__ inline void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
/// Orders only barriers initialised before fence_mbarrier_init().
__device__ inline void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ inline void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ inline void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}

/// The same address in the shared memory of the cluster's block `rank`.
__device__ inline uint32_t map_to_rank(const void* place, uint32_t rank) {
  uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(address)
      : "r"(shared_address(place)), "r"(rank));
  return address;
}

/// Two floats from another block's shared memory.
__device__ inline float2 load_cluster(uint32_t address) {
  float2 v;
  asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];"
               : "=f"(v.x), "=f"(v.y)
               : "r"(address)
               : "memory");
  return v;
}

/// Stores into another block's shared memory without a fence: the value arrives asynchronously and
/// counts as 8 bytes at a barrier of that block. A cluster-scope release would first wait for all
/// of this thread's stores to global memory: microseconds when memory is busy.
__device__ inline void store_async(uint32_t address, double value, uint32_t barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(
          address),
      "l"(__double_as_longlong(value)), "r"(barrier)
      : "memory");
}

}  // namespace dlblas
