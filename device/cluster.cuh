// Clusters of blocks (sm_90 and later): who am I, barriers, and the other blocks' shared memory.
// In: addresses in this block's shared memory. Out: writes that land at the same address in a
// block of the same cluster. Rule: a block's memory may be written once it has started (one
// barrier after the start) and until it ends (a barrier after the last write).
// Read next: ops/norm/norm_registers.cuh, which sums a row over a cluster.
#pragma once

#include "device/shared.cuh"

namespace dlblas {

/// This block's place in its cluster, 0 to cluster_size − 1.
__device__ inline uint32_t cluster_rank() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// Both halves of a barrier over all threads of the cluster; writes before `arrive` are seen after
/// `wait`.
__device__ inline void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ inline void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ inline void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}

/// The same place in the shared memory of the cluster's block `rank`.
__device__ inline uint32_t map_to_rank(const void* place, uint32_t rank) {
  uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(address)
      : "r"(shared_address(place)), "r"(rank));
  return address;
}

__device__ inline void store_remote(uint32_t address, double value) {
  asm volatile("st.shared::cluster.f64 [%0], %1;" ::"r"(address), "d"(value) : "memory");
}
__device__ inline void store_remote(uint32_t address, float value) {
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}
__device__ inline double load_remote(uint32_t address) {
  double value;
  asm volatile("ld.shared::cluster.f64 %0, [%1];" : "=d"(value) : "r"(address) : "memory");
  return value;
}

/// A sum over the cluster's blocks: each writes its part into all the others, in f64, and adds them
/// in the order of ranks. All threads of the block hold the same part and get the same sum. Two
/// sets of parts: a block may be one sum ahead.
template <int kBlocks>
class ClusterSum {
 public:
  /// `parts`: 2 · kBlocks doubles of shared memory. All threads of the cluster.
  __device__ explicit ClusterSum(double* parts) : parts_(parts) { cluster_arrive(); }
  __device__ double sum(double part) {
    if (!started_) cluster_wait();  // nobody writes into a block that has not started
    started_ = true;
    double* parts = parts_ + odd_ * kBlocks;
    odd_ ^= 1;
    if (threadIdx.x < kBlocks) store_remote(map_to_rank(parts + cluster_rank(), threadIdx.x), part);
    cluster_sync();
    double sum = parts[0];
#pragma unroll
    for (int i = 1; i < kBlocks; ++i) sum += parts[i];
    return sum;
  }

 private:
  double* parts_;
  int odd_ = 0;
  bool started_ = false;
};
/// A block on its own.
template <>
class ClusterSum<1> {
 public:
  __device__ explicit ClusterSum(double*) {}
  __device__ double sum(double part) { return part; }
};

}  // namespace dlblas
