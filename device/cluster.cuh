// Clusters of blocks (sm_90 and later): who am I, barriers, and the other blocks' shared memory.
// In: addresses in this block's shared memory. Out: writes that land at the same address in a
// block of the same cluster. Rule: a block's memory may be written once it has started (one
// barrier after the start) and until it ends (a barrier after the last write).
// Read next: ops/norm/cuda/norm_registers.cuh, which sums a row over a cluster.
#pragma once

#include "device/mbarrier.cuh"

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
/// Orders nothing but barriers made before fence_mbarrier_init().
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

/// The same place in the shared memory of the cluster's block `rank`.
__device__ inline uint32_t map_to_rank(const void* place, uint32_t rank) {
  uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(address)
      : "r"(shared_address(place)), "r"(rank));
  return address;
}

/// Stores into a block of the cluster without a fence: the value lands some time, and counts as 8
/// bytes at a barrier of that block. A release at the scope of a cluster would first wait until
/// every store of this thread to global memory has arrived: microseconds, where memory is busy.
__device__ inline void store_async(uint32_t address, double value, uint32_t barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(
          address),
      "l"(__double_as_longlong(value)), "r"(barrier)
      : "memory");
}

/// A sum over the cluster's blocks: each writes its part into all the others, in f64, and adds them
/// in the order of ranks. Two sets of parts: a block may be one sum ahead. The threads that call
/// `sum` hold the same part, get the same sum, and meet at a barrier of theirs between two sums.
template <int kBlocks>
class ClusterSum {
 public:
  struct Shared {
    double parts[2][kBlocks];
    Mbarrier full[2];
  };
  /// All threads of the cluster. `thread`: place among those of the block that call `sum`, kBlocks
  /// and more of them.
  __device__ ClusterSum(Shared& shared, int thread) : shared_(shared), thread_(thread) {
    if (threadIdx.x == 0) {
      for (Mbarrier& full : shared.full) {
        full.init(1);
        full.arrive_expect_tx(sizeof(shared.parts[0]));
      }
      fence_mbarrier_init();
    }
    cluster_arrive_relaxed();
  }
  /// All threads of the cluster, once: nobody writes into a block that has not started.
  __device__ void start() const { cluster_wait(); }

  __device__ double sum(double part) {
    const int set = turn_ & 1;
    const double(&parts)[kBlocks] = shared_.parts[set];
    Mbarrier& full = shared_.full[set];
    if (thread_ < kBlocks)
      store_async(map_to_rank(&parts[cluster_rank()], thread_), part, map_to_rank(&full, thread_));
    // Not wait_cluster: parts come with the barrier's bytes, and its acquire would empty L1.
    full.wait(turn_ >> 1 & 1);
    // The next but one: its bytes come only when all threads here have passed this wait.
    if (thread_ == 0) full.arrive_expect_tx(sizeof(parts));
    ++turn_;
    double sum = parts[0];
#pragma unroll
    for (int i = 1; i < kBlocks; ++i) sum += parts[i];
    return sum;
  }

 private:
  Shared& shared_;
  int thread_;
  uint32_t turn_ = 0;
};
/// A block on its own.
template <>
class ClusterSum<1> {
 public:
  struct Shared {};
  __device__ ClusterSum(Shared&, int) {}
  __device__ void start() const {}
  __device__ double sum(double part) const { return part; }
};

}  // namespace dlblas
