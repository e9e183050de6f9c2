// A strided tensor as the tuner's kernels and the device oracles see it: any dtype, any strides,
// one element at a time. Plain values, shared by the host (made by cuda/view.hpp) and NVRTC.
// Read next: device/element_f64.cuh.
#pragma once

#include "device/types.hpp"

namespace dlblas {

struct DeviceView {
  static constexpr int kRank = 8;
  void* data;
  int64_t shape[kRank];  // dimensions that lie on one stride are one
  int64_t strides[kRank];
  int32_t rank;
  DType dtype;
};

}  // namespace dlblas
