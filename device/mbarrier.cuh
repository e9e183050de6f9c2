// Barriers in shared memory that count threads and bytes: how copies and warps of a block (or of a
// cluster) hand tiles to each other on Hopper.
// A barrier's phase completes when all expected arrivals and bytes have come; waiters name the
// phase by its parity (0, 1, 0, …), and a new barrier is in phase 0.
// Counting threads needs sm_80; bytes and try_wait need sm_90. Including needs neither: functions
// that are not called are not emitted. Read next: device/tma.cuh.
#pragma once

#include "device/shared.cuh"

namespace dlblas {

/// Lives in shared memory; trivially constructible, so an array of them may be __shared__.
struct Mbarrier {
  uint64_t state;

  /// By one thread; then fence_mbarrier_init() and a block (or cluster) barrier before any use.
  __device__ __forceinline__ void init(uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)),
                 "r"(arrivals)
                 : "memory");
  }

  __device__ __forceinline__ void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(this)) : "memory");
  }

  /// Arrives, and makes this phase also wait for `bytes` of copies. One instruction: bytes that
  /// land before it make the count negative for a while, which is allowed.
  __device__ __forceinline__ void arrive_expect_tx(uint32_t bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(this)),
        "r"(bytes)
        : "memory");
  }

  /// Expects more bytes in the current phase, without arriving.
  __device__ __forceinline__ void expect_tx(uint32_t bytes) {
    asm volatile(
        "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)),
        "r"(bytes)
        : "memory");
  }

  /// Arrives at the same barrier of block `rank` of the cluster. That block must not have exited.
  __device__ __forceinline__ void arrive_at(uint32_t rank) {
    asm volatile(
        "{\n\t"
        ".reg .b32 there;\n\t"
        "mapa.shared::cluster.u32 there, %0, %1;\n\t"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n\t"
        "}" ::"r"(shared_address(this)),
        "r"(rank)
        : "memory");
  }

  /// Like arrive_at, but orders nothing beyond this block: for stages that only the asynchronous
  /// units read and write. (A cluster-scope release waits for the thread's global stores.)
  __device__ __forceinline__ void signal(uint32_t rank) {
    asm volatile(
        "{\n\t"
        ".reg .b32 there;\n\t"
        "mapa.shared::cluster.u32 there, %0, %1;\n\t"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n\t"
        "}" ::"r"(shared_address(this)),
        "r"(rank)
        : "memory");
  }

  /// True if the phase of this parity has completed. May sleep before it returns false.
  __device__ __forceinline__ bool try_wait(uint32_t parity) {
    uint32_t done;
    asm volatile(
        "{\n\t"
        ".reg .pred p;\n\t"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
        "selp.u32 %0, 1, 0, p;\n\t"
        "}"
        : "=r"(done)
        : "r"(shared_address(this)), "r"(parity)
        : "memory");
    return done != 0;
  }

  /// One asm statement holds the loop: a C++ loop takes longer to compile.
  __device__ __forceinline__ void wait(uint32_t parity) {
    asm volatile(
        "{\n\t"
        ".reg .pred done;\n\t"
        "again:\n\t"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
        "@!done bra again;\n\t"
        "}" ::"r"(shared_address(this)),
        "r"(parity)
        : "memory");
  }
  /// For arrivals from other blocks of the cluster: also orders their earlier reads and writes.
  __device__ __forceinline__ void wait_cluster(uint32_t parity) {
    asm volatile(
        "{\n\t"
        ".reg .pred done;\n\t"
        "again:\n\t"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n\t"
        "@!done bra again;\n\t"
        "}" ::"r"(shared_address(this)),
        "r"(parity)
        : "memory");
  }

  /// Call before the memory is reused. No thread may be waiting.
  __device__ __forceinline__ void invalidate() {
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_address(this)) : "memory");
  }
};
static_assert(sizeof(Mbarrier) == 8 && alignof(Mbarrier) == 8, "as the instructions want it");

/// Makes initialised barriers visible to the copy engine and to the cluster; called by the
/// initialising thread.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// Makes this thread's writes to shared memory visible to the asynchronous units (TMA, WGMMA).
/// Every writing thread calls it, then a barrier, then the asynchronous operation is issued.
__device__ __forceinline__ void fence_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// A position in a ring of `kStages` buffers and the parity of its current phase. A producer waits
/// on `empty` with parity ^ 1 (a new ring is empty), a consumer on `full` with parity.
template <int kStages>
struct RingPlace {
  uint32_t stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
  /// Advances by several stages.
  __device__ __forceinline__ void advance(uint32_t places) {
    stage += places;
    parity ^= stage / kStages & 1;
    stage %= kStages;
  }
};

}  // namespace dlblas
