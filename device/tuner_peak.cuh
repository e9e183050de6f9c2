// Independent f32 multiply-adds, for the peak that a product without tensor cores cannot exceed.
// Read next: src/tuner/cuda_machine.cpp.
#pragma once

#include "device/tuner_params.hpp"

namespace dlblas {

__global__ void __launch_bounds__(PeakParams::kThreads)
    tuner_peak(const __grid_constant__ PeakParams p) {
  float sums[PeakParams::kChains];
  for (int i = 0; i < PeakParams::kChains; ++i) sums[i] = static_cast<float>(threadIdx.x + i);
  for (int64_t n = 0; n < p.iterations; ++n)
#pragma unroll
    for (int i = 0; i < PeakParams::kChains; ++i) sums[i] = fmaf(sums[i], p.factor, p.addend);
  float sum = 0;
  for (int i = 0; i < PeakParams::kChains; ++i) sum += sums[i];
  if (sum == p.never) *p.out = sum;  // so that nothing is left out
}

}  // namespace dlblas
