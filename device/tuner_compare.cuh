// Compares results with the oracle's values on the device, as tuner/verify.cpp's Comparison does:
// element by element, with one partial sum per block, which the host adds in order, so the bits are
// the same every time. Flow: tune > measure > [judge]. Read next: src/tuner/cuda_verifier.cpp.
#pragma once

#include "device/element_f64.cuh"
#include "device/tuner_params.hpp"
#include "device/whole.hpp"

namespace dlblas {

namespace compare {

constexpr int kThreads = CompareParams::kThreads;
constexpr int64_t kNone = 0x7fffffffffffffff;

__device__ inline double infinity() { return __longlong_as_double(0x7ff0000000000000); }

// out − ref| over the allowed error; 0 where non-finite values agree, infinity where they do not.
__device__ inline double error_of(double out, double ref, double allowed, DType dtype) {
  if (isnan(ref) || isnan(out)) return isnan(ref) && isnan(out) ? 0 : infinity();
  const FloatTraits limits = float_traits(dtype);
  if (is_f8(dtype) && fabs(ref) >= limits.max) {  // conversions to f8 saturate
    if (fabs(out) == limits.max && signbit(out) == signbit(ref)) return 0;
    if (isfinite(ref)) ref = copysign(limits.max, ref);
  }
  if (isinf(ref)) return out == ref ? 0 : infinity();
  if (isinf(out)) {
    const bool overflows = isinf(round_to(dtype, fabs(ref) + allowed));
    return overflows && signbit(out) == signbit(ref) ? 0 : infinity();
  }
  const double difference = fabs(out - ref);
  if (difference == 0) return 0;
  const bool at_limit = fabs(out) == limits.max && fabs(ref) > limits.max &&
                        fabs(ref) <= limits.max * (1 + limits.eps) && out * ref > 0;
  if (at_limit) return 0;
  const double error = difference / allowed;
  return isnan(error) ? infinity() : error;
}

// The same for i64, whose difference is exact.
__device__ inline double error_of_whole(int64_t out, double value, double rest, double allowed) {
  const double difference = whole_distance(out, value, rest);
  const double error = difference == 0 ? 0 : difference / allowed;
  return isnan(error) ? infinity() : error;
}

__device__ inline ComparePart empty() {
  return {0, 0, 0, infinity(), -infinity(), 0, 0, 0, 0, 0, kNone};
}

__device__ inline void add(ComparePart& to, const CompareParams& p, int64_t at, int64_t index) {
  if (p.magnitudes[at] < 0) return;  // undefined: anything may be there
  const double ref = p.values[at];
  const double allowed =
      p.bound_magnitude * p.magnitudes[at] + p.bound_value * fabs(ref) + p.bound_absolute;
  const int64_t place = offset_of(p.out, index);
  const double out = load_element(p.out, place);
  const double error =
      p.out.dtype == DType::kI64
          ? error_of_whole(dlblas::at<int64_t>(p.out, place), ref, p.magnitudes[at], allowed)
          : error_of(out, ref, allowed, p.out.dtype);
  ++to.checked;
  to.worst = fmax(to.worst, error);
  if (!(error <= 1)) {
    ++to.wrong;
    to.first_wrong = min(to.first_wrong, index);
  }
  to.nans += isnan(ref);
  to.infinite += isinf(ref);
  if (!isfinite(ref)) return;
  to.zeros += fabs(ref) <= allowed;
  to.least = fmin(to.least, ref);
  to.most = fmax(to.most, ref);
  if (!isfinite(out)) return;
  to.distance += (out - ref) * (out - ref);
  to.norm += ref * ref;
}

__device__ inline void merge(ComparePart& to, const ComparePart& from) {
  to.worst = fmax(to.worst, from.worst);
  to.distance += from.distance;
  to.norm += from.norm;
  to.least = fmin(to.least, from.least);
  to.most = fmax(to.most, from.most);
  to.wrong += from.wrong;
  to.checked += from.checked;
  to.zeros += from.zeros;
  to.nans += from.nans;
  to.infinite += from.infinite;
  to.first_wrong = min(to.first_wrong, from.first_wrong);
}

}  // namespace compare

__global__ void __launch_bounds__(compare::kThreads)
    tuner_compare(const __grid_constant__ CompareParams p) {
  __shared__ ComparePart parts[compare::kThreads];
  ComparePart mine = compare::empty();
  const int64_t step = static_cast<int64_t>(gridDim.x) * compare::kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * compare::kThreads + threadIdx.x;
       i < p.num_rows * p.width; i += step) {
    const int64_t row = p.rows[i / p.width];
    if (row >= p.row_limit) continue;
    const int64_t index = row * p.width + i % p.width;
    compare::add(mine, p, i, index);
  }
  parts[threadIdx.x] = mine;
  for (int half = compare::kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half)
      compare::merge(parts[threadIdx.x], parts[threadIdx.x + half]);
  }
  if (threadIdx.x == 0) p.parts[blockIdx.x] = parts[0];
}

}  // namespace dlblas
