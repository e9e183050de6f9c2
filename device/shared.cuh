// Shared memory as PTX addresses it: 32 bits, counted in the block's own window.
// Read next: device/mbarrier.cuh, device/cluster.cuh, device/cp_async.cuh.
#pragma once

#include "device/types.hpp"

namespace dlblas {

/// The address that shared-memory instructions take, of a place in this block's shared memory.
__device__ __forceinline__ uint32_t shared_address(const void* place) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(place));
}

}  // namespace dlblas
