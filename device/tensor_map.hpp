// The copy engine's view of a tensor, as a kernel's parameters carry it: 128 opaque bytes encoded
// by the driver. Shared by the host (Params structs; filled by src/cuda/tensor_map.cpp) and NVRTC.
// Read next: device/tma.cuh.
#pragma once

#include "device/types.hpp"

namespace dlblas {

/// Must live in a kernel's `const __grid_constant__ Params`: a copy in registers or local memory
/// does not work as a tensor map.
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};
/// L2 priority of the lines that a copy loads or stores: default, evict first, evict last.
enum class CacheHint : int32_t { kNone, kFirst, kLast };

static_assert(sizeof(TensorMap) == 128 && alignof(TensorMap) == 64, "the driver's CUtensorMap");

}  // namespace dlblas
