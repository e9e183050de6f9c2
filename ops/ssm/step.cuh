// What CUDA kernels of state-space models share: elements at any stride as floats, and the time
// step. Numerics: device/row/values.cuh. Read next: selective_state_update/, selective_scan/.
#pragma once

#include "device/row/values.cuh"
#include "device/vec.cuh"

namespace dlblas::ssm {

template <DType T>
__device__ inline float load_one(const void* base, int64_t offset) {
  return load_vec<T, 1, size_of(T)>(base, offset).pair(0).low;
}
template <DType T>
__device__ inline void store_one(void* base, int64_t offset, float value) {
  Vec<T, 1> v;
  v.set_pair(0, value, 0);
  store_vec<T, 1, size_of(T)>(base, offset, v);
}

/// kCount elements at one stride. kWide: contiguous, and aligned to kCount elements or 16 bytes.
template <DType T, int kCount, bool kWide>
__device__ inline void load_line(float (&out)[kCount], const void* base, int64_t offset,
                                 int64_t stride) {
  if constexpr (kWide) {
    load_vec<T, kCount, kCount * size_of(T)>(base, offset).unpack(out);
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) out[i] = load_one<T>(base, offset + i * stride);
  }
}
template <DType T, int kCount, bool kWide>
__device__ inline void store_line(void* base, int64_t offset, int64_t stride,
                                  const float (&in)[kCount]) {
  if constexpr (kWide) {
    Vec<T, kCount> v;
    v.pack(in);
    store_vec<T, kCount, kCount * size_of(T)>(base, offset, v);
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) store_one<T>(base, offset + i * stride, in[i]);
  }
}

/// log(1 + e^v).
__device__ inline float softplus(float v) {
  return DeviceMath::max(v, 0.0f) + ::log1pf(DeviceMath::exp(-fabsf(v)));
}
/// e^(dt·a).
__device__ inline float decay(float dt, float a) { return DeviceMath::exp(dt * a); }

}  // namespace dlblas::ssm
