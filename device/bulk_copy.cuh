// Hopper's bulk copy of plain memory: contiguous bytes from global to shared memory, issued by one
// thread, counted at an Mbarrier. Needs no tensor map.
// In: addresses and a length, multiples of 16 bytes. Calls need sm_90 or later; including does not.
// Read next: device/tma.cuh (tiles), ops/norm/cuda/norm_ring.cuh.
#pragma once

#include "device/mbarrier.cuh"

namespace dlblas {

/// `to`: a shared_address. The bytes count at `full`. They are read once, hence evict_first in L2
/// (H200, November 2026: saves 2 % of a copy that is larger than L2).
__device__ __forceinline__ void bulk_load_once(uint32_t to, const void* from, uint32_t bytes,
                                               Mbarrier& full) {
  asm volatile(
      "{\n .reg .b64 policy;\n"
      " createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"
      " cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1], %2, [%3], policy;\n}" ::"r"(to),
      "l"(from), "r"(bytes), "r"(shared_address(&full))
      : "memory");
}

/// The same for bytes that other blocks read, too.
__device__ __forceinline__ void bulk_load(uint32_t to, const void* from, uint32_t bytes,
                                          Mbarrier& full) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(shared_address(&full))
      : "memory");
}

}  // namespace dlblas
