// Compares two results of one call, every element: which rows hold two elements that differ by more
// than two correct results may? Does what tuner/host_verifier.cpp's Pair does. Flow: tune > measure >
// [judge]. Read next: src/tuner/cuda_verifier.cpp.
#pragma once

#include "device/element_f64.cuh"
#include "device/tuner_params.hpp"
#include "device/whole.hpp"

namespace dlblas {

namespace dispute {

__device__ inline double allowed(const DisputeParams& p, double a, double b, double magnitude) {
  return p.bound_magnitude * magnitude + p.bound_value * fmax(fabs(a), fabs(b)) + p.bound_absolute;
}

__device__ inline bool differ(const DisputeParams& p, double a, double b, int64_t column) {
  const double magnitude = p.largest[column];
  if (a == b || magnitude < 0 || (isnan(a) && isnan(b))) return false;
  return !isfinite(a) || !isfinite(b) || !(fabs(a - b) <= 2 * allowed(p, a, b, magnitude));
}

__device__ inline bool differ(const DisputeParams& p, int64_t a, int64_t b, int64_t column) {
  const double magnitude = p.largest[column];
  const auto x = static_cast<double>(a), y = static_cast<double>(b);
  return a != b && magnitude >= 0 && !(distance_of(a, b) <= 2 * allowed(p, x, y, magnitude));
}

}  // namespace dispute

__global__ void __launch_bounds__(DisputeParams::kThreads)
    tuner_dispute(const __grid_constant__ DisputeParams p) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * DisputeParams::kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * DisputeParams::kThreads + threadIdx.x;
       i < p.numel; i += step) {
    const int64_t one = offset_of(p.one, i), other = offset_of(p.other, i);
    const bool differ =
        p.one.dtype == DType::kI64
            ? dispute::differ(p, at<int64_t>(p.one, one), at<int64_t>(p.other, other), i % p.width)
            : dispute::differ(p, load_element(p.one, one), load_element(p.other, other),
                              i % p.width);
    if (differ) p.flags[i / p.width] = 1;
  }
}

}  // namespace dlblas
