// One element of a tensor as f64, for kernels that judge: inputs, comparisons, oracles. Mirrors
// core/element.hpp bit for bit (tests/cpp/test_gpu_tuner.cpp); slow and general on purpose.
// Read next: device/tuner_inputs.cuh, device/tuner_compare.cuh.
#pragma once

#include "device/float8.hpp"
#include "device/view.hpp"

namespace dlblas {

/// Offset, in elements, of the element with a row-major index.
__device__ inline int64_t offset_of(const StridedView& t, int64_t index) {
  int64_t at = 0;
  for (int i = t.rank - 1; i > 0; --i) {
    at += index % t.shape[i] * t.strides[i];
    index /= t.shape[i];
  }
  return t.rank > 0 ? at + index * t.strides[0] : 0;
}

/// Rounds to odd, so that a second rounding to a narrower type equals one rounding from f64.
__device__ inline float to_f32_odd(double v) {
  const float f = __double2float_rz(v);  // beyond f32's range its largest value, which is odd
  return static_cast<double>(f) == v || v != v || isinf(v) ? static_cast<float>(v)
                                                           : __int_as_float(__float_as_int(f) | 1);
}
__device__ inline uint16_t to_f16(double v) {
  uint16_t h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(to_f32_odd(v)));
  return h;
}
__device__ inline uint16_t to_bf16(double v) {
  uint16_t h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(to_f32_odd(v)));
  return h;
}
__device__ inline double from_f16(uint16_t h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
__device__ inline double from_bf16(uint16_t h) { return __int_as_float(static_cast<int>(h) << 16); }

__device__ inline uint8_t to_f8(DType dtype, double v) {
  const auto bits = static_cast<uint32_t>(__float_as_int(to_f32_odd(v)));
  return static_cast<uint8_t>(dtype == DType::kF8E4M3   ? f32_bits_to_f8e4m3(bits)
                              : dtype == DType::kF8E5M2 ? f32_bits_to_f8e5m2(bits)
                                                        : f32_bits_to_f8e8m0(bits));
}
__device__ inline double from_f8(DType dtype, uint8_t code) {
  return __int_as_float(static_cast<int>(dtype == DType::kF8E4M3   ? f8e4m3_to_f32_bits(code)
                                         : dtype == DType::kF8E5M2 ? f8e5m2_to_f32_bits(code)
                                                                   : f8e8m0_to_f32_bits(code)));
}
/// Rounds to the nearest value of a dtype, as f64.
__device__ inline double round_to(DType dtype, double v) {
  if (dtype == DType::kF32) return static_cast<float>(v);
  if (dtype == DType::kF16) return from_f16(to_f16(v));
  if (dtype == DType::kBF16) return from_bf16(to_bf16(v));
  if (is_f8(dtype) || dtype == DType::kF8E8M0) return from_f8(dtype, to_f8(dtype, v));
  return v;
}

template <typename V>
__device__ inline V& at(const StridedView& t, int64_t offset) {
  return static_cast<V*>(t.data)[offset];
}

/// The element at `offset` elements from data.
__device__ inline double load_element(const StridedView& t, int64_t offset) {
  switch (t.dtype) {
    case DType::kF32:
      return at<float>(t, offset);
    case DType::kF16:
      return from_f16(at<uint16_t>(t, offset));
    case DType::kBF16:
      return from_bf16(at<uint16_t>(t, offset));
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kF8E8M0:
      return from_f8(t.dtype, at<uint8_t>(t, offset));
    case DType::kF64:
      return at<double>(t, offset);
    case DType::kI8:
      return at<int8_t>(t, offset);
    case DType::kI32:
      return at<int32_t>(t, offset);
    case DType::kI64:
      return static_cast<double>(at<int64_t>(t, offset));
    default:
      return at<uint8_t>(t, offset);
  }
}

__device__ inline void store_element(const StridedView& t, int64_t offset, double v) {
  switch (t.dtype) {
    case DType::kF32:
      at<float>(t, offset) = static_cast<float>(v);
      break;
    case DType::kF16:
      at<uint16_t>(t, offset) = to_f16(v);
      break;
    case DType::kBF16:
      at<uint16_t>(t, offset) = to_bf16(v);
      break;
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kF8E8M0:
      at<uint8_t>(t, offset) = to_f8(t.dtype, v);
      break;
    case DType::kF64:
      at<double>(t, offset) = v;
      break;
    case DType::kI8:
      at<int8_t>(t, offset) = static_cast<int8_t>(v);
      break;
    case DType::kI32:
      at<int32_t>(t, offset) = static_cast<int32_t>(v);
      break;
    case DType::kI64:
      at<int64_t>(t, offset) = static_cast<int64_t>(v);
      break;
    default:
      at<uint8_t>(t, offset) = static_cast<uint8_t>(v);
  }
}

}  // namespace dlblas
