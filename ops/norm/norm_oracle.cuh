// The oracle of rms_norm and add_rms_norm as a kernel: norm_ref.cpp's formula in f64, one block a
// row, any dtype and strides at run time. Slow and plain on purpose; the host's reference checks it
// before it judges. Flow: tune > measure > [judge].  Read next: ops/norm/norm_ref.cpp (why a
// magnitude is so).
#pragma once

#include "device/element_f64.cuh"
#include "ops/norm/norm_oracle_config.hpp"

namespace dlblas {
namespace norm_oracle {

constexpr int kThreads = 256;

// h of one element: x, or x + residual made in f32 and rounded to x's dtype.
__device__ inline double hidden(const NormOracleParams& p, int64_t at) {
  const double x = load_element(p.x, offset_of(p.x, at));
  if (p.residual.data == nullptr) return x;
  const double r = load_element(p.residual, offset_of(p.residual, at));
  return round_to(p.x.dtype, __fadd_rn(static_cast<float>(x), static_cast<float>(r)));
}

__device__ inline double block_sum(double mine) {
  __shared__ double sums[kThreads];
  __syncthreads();  // the sum before this one has been read
  sums[threadIdx.x] = mine;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  __syncthreads();
  return sums[0];
}

// The distance between neighbours of a dtype around v.
__device__ inline double spacing(DType dtype, double v) {
  const FloatTraits limits = float_traits(dtype);
  return fmax(exp2(floor(log2(fabs(v)))) * limits.eps, limits.tiny);
}

__device__ inline double infinity() { return __longlong_as_double(0x7ff0000000000000); }

}  // namespace norm_oracle

__global__ void __launch_bounds__(norm_oracle::kThreads)
    norm_oracle_rows(const __grid_constant__ NormOracleParams p) {
  const int64_t row = p.rows[blockIdx.x] * p.width;
  const int64_t out = static_cast<int64_t>(blockIdx.x) * p.width;
  double sum = 0, fourth = 0, nonzero = 0;
  for (int64_t c = threadIdx.x; c < p.width; c += norm_oracle::kThreads) {
    const double h = norm_oracle::hidden(p, row + c), square = h * h;
    sum += square;
    fourth += square * square;
    nonzero += h != 0;
  }
  sum = norm_oracle::block_sum(sum);
  fourth = norm_oracle::block_sum(fourth);
  nonzero = norm_oracle::block_sum(nonzero);
  const double q = fourth > 0 ? sum / fourth * (sum / nonzero) : 0, q3 = q * q * q;
  const double roundings = p.roundings + (isfinite(q) ? p.alike * q3 * q3 : 0);
  const double error = roundings * p.unit;
  const double scale = 1 / sqrt(sum / static_cast<double>(p.width) + p.eps);
  for (int64_t c = threadIdx.x; c < p.width; c += norm_oracle::kThreads) {
    const double h = norm_oracle::hidden(p, row + c);
    const double weight = load_element(p.weight, offset_of(p.weight, c));
    double normed = h * scale, size = fabs(normed);
    if (p.cast_before_weight && p.x.dtype != DType::kF32) {
      const double off = size * error + 0x1p-149;
      const bool may_flip =
          round_to(p.x.dtype, normed - off) != round_to(p.x.dtype, normed + off);
      if (may_flip) size += norm_oracle::spacing(p.x.dtype, normed) / error;
      normed = round_to(p.x.dtype, normed);
    }
    const double factor = weight + p.weight_offset;
    if (isinf(factor)) normed = static_cast<float>(normed);  // f32 decides what is 0
    const double value = normed * factor;
    const double magnitude = roundings * (size + 0x1p-126) * (fabs(weight) + fabs(p.weight_offset));
    const double least = fabs(value) - 2 * p.unit * magnitude;  // as norm_ref.cpp's overflowed
    const bool overflows = least > 0 && isinf(round_to(p.x.dtype, least));
    p.y[out + c] = overflows ? copysign(norm_oracle::infinity(), value) : value;
    p.y_magnitude[out + c] = magnitude;
    if (p.residual.data == nullptr) continue;
    p.h[out + c] = h;
    p.h_magnitude[out + c] = fabs(h);
  }
}

}  // namespace dlblas
