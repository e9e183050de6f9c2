// The copy engine's view of a tensor, as a kernel's parameters carry it: 128 opaque bytes that the
// driver encodes. Shared by the host (Params structs; made by src/cuda/tensor_map.cpp) and NVRTC.
// Read next: device/tma.cuh.
#pragma once

#include "device/types.hpp"

namespace dlblas {

/// Goes into a kernel's `const __grid_constant__ Params`; a copy in registers or local memory is no
/// tensor map.
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};
/// How long L2 keeps what a copy brings or stores: as ever, out first, or out last.
enum class CacheHint : int32_t { kNone, kFirst, kLast };

static_assert(sizeof(TensorMap) == 128 && alignof(TensorMap) == 64, "the driver's CUtensorMap");

}  // namespace dlblas
