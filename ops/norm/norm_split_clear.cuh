// First step of cuda_split: no ticket is taken and nobody has arrived, whatever the workspace held.
// Read next: ops/norm/norm_split.cuh.
#pragma once

#include "device/pdl.cuh"
#include "ops/norm/norm_cuda_config.hpp"

namespace dlblas {

__global__ void norm_split_clear(const __grid_constant__ NormSplitParams p) {
  launch_dependents();
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < p.clear_words;
       i += step)
    p.ticket[i] = 0;
}

}  // namespace dlblas
