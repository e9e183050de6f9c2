// A strided tensor as the tuner's kernels and the device oracles see it: any dtype, any strides,
// one element at a time. Plain values, shared by the host (made by cuda/view.hpp) and NVRTC.
// Read next: device/element_f64.cuh.
#pragma once

#include "device/types.hpp"

namespace dlblas {

/// The host's DType, value by value (asserted in cuda/view.hpp).
enum ElementCode : int32_t {
  kCodeF32,
  kCodeF16,
  kCodeBF16,
  kCodeF8E4M3,
  kCodeF8E5M2,
  kCodeI8,
  kCodeI32,
  kCodeI64,
  kCodeU8,
  kCodeBool,
  kCodeF64,
  kCodeF8E8M0,
  kCodeF4X2,  // as its byte
};

struct DeviceView {
  static constexpr int kRank = 8;
  void* data;
  int64_t shape[kRank];  // dimensions that lie on one stride are one
  int64_t strides[kRank];
  int32_t rank;
  int32_t dtype;  // ElementCode
};

}  // namespace dlblas
