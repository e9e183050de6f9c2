// Copies from global to shared memory that bypass registers (sm_80 and later): 16 bytes per thread,
// counted in groups, several groups in flight. In: 16-byte aligned addresses; `valid` bytes are
// read and the rest of the 16 becomes zero, so that matrix edges need no branch. Order of use:
// cp_async() …, cp_async_commit(), cp_async_wait<groups that may stay in flight>(),
// __syncthreads(). Read next: device/mma_tile.cuh.
#pragma once

#include "device/mbarrier.cuh"

namespace dlblas {

/// 0 ≤ valid ≤ 16; with valid = 0 nothing is read. Bypasses L1: each block reads a tile once.
__device__ __forceinline__ void cp_async(uint32_t to_shared, const void* from, int32_t valid) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to_shared), "l"(from),
               "r"(valid)
               : "memory");
}

/// Closes the group of this thread's copies since the last commit; an empty group counts too.
__device__ __forceinline__ void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// At most `kPending` of this thread's groups are still in flight; the older ones have landed.
template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// Arrives at the barrier once all of this thread's copies so far have landed.
__device__ __forceinline__ void cp_async_arrive(Mbarrier& full) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(&full))
               : "memory");
}

}  // namespace dlblas
