// Two results of one call against each other, every element: which rows hold two elements that
// differ by more than two right ones may? What tuner/host_judge.cpp's Pair does. Flow: tune >
// measure > [judge].  Read next: src/tuner/cuda_judge.cpp.
#pragma once

#include "device/element_f64.cuh"
#include "device/tuner_params.hpp"

namespace dlblas {

namespace dispute {

__device__ inline bool differ(const DisputeParams& p, double a, double b, int64_t column) {
  const double magnitude = p.largest[column];
  if (a == b || magnitude < 0 || (isnan(a) && isnan(b))) return false;
  const double allowed =
      p.bound_magnitude * magnitude + p.bound_value * fmax(fabs(a), fabs(b)) + p.bound_absolute;
  return !isfinite(a) || !isfinite(b) || !(fabs(a - b) <= 2 * allowed);
}

}  // namespace dispute

__global__ void __launch_bounds__(DisputeParams::kThreads)
    tuner_dispute(const __grid_constant__ DisputeParams p) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * DisputeParams::kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * DisputeParams::kThreads + threadIdx.x;
       i < p.numel; i += step) {
    const double a = load_element(p.one, offset_of(p.one, i));
    const double b = load_element(p.other, offset_of(p.other, i));
    if (dispute::differ(p, a, b, i % p.width)) p.flags[i / p.width] = 1;
  }
}

}  // namespace dlblas
