// Shared memory as PTX addresses it: 32 bits, relative to the block's own window.
// Read next: device/mbarrier.cuh, device/cluster.cuh, device/cp_async.cuh.
#pragma once

#include "device/types.hpp"

namespace dlblas {

/// The address of a place in this block's shared memory, as shared-memory instructions take it.
__device__ __forceinline__ uint32_t shared_address(const void* place) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(place));
}

/// Access to 16 bytes at such an address, or to one word of 32 bits.
__device__ __forceinline__ void load_shared(uint32_t (&words)[4], uint32_t from) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(from)
               : "memory");
}
__device__ __forceinline__ void store_shared(uint32_t to, const uint32_t (&words)[4]) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words[0]), "r"(words[1]),
               "r"(words[2]), "r"(words[3])
               : "memory");
}
__device__ __forceinline__ uint32_t load_shared_word(uint32_t from) {
  uint32_t word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(from) : "memory");
  return word;
}

}  // namespace dlblas
