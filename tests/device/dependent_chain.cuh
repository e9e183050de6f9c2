// Test kernel: one link of a chain of dependent launches, each adding 1 to what the one before it
// wrote; a link that reads too early adds to an old value. Driven by
// tests/cpp/test_device_toolbox.cpp.
#pragma once

#include "device/pdl.cuh"
#include "tests/device/toolbox_params.hpp"

namespace dlblas {

__global__ void dependent_link(const __grid_constant__ ChainParams p) {
  launch_dependents();  // as early as can be: the next link is there while this one works
  wait_for_dependencies();
  const int32_t stride = static_cast<int32_t>(gridDim.x * blockDim.x);
  for (int32_t i = static_cast<int32_t>(blockIdx.x * blockDim.x + threadIdx.x); i < p.count;
       i += stride)
    p.to[i] = p.from[i] + 1;
}

}  // namespace dlblas
