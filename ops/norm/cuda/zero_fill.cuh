// First step of kernels whose blocks exchange sums through the workspace: sets all counters to 0.
// Read next: ops/norm/cuda/grid_row_sum.cuh.
#pragma once

#include "device/pdl.cuh"
#include "ops/norm/cuda/norm_cuda_config.hpp"

namespace dlblas::norm {

__global__ void zero_fill(const __grid_constant__ ZeroFillParams p) {
  wait_for_dependencies();  // earlier users of the workspace
  launch_dependents();
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
#pragma unroll 1
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < p.count;
       i += step)
    p.words[i] = 0;
}

}  // namespace dlblas::norm
