// A tensor as kernels of the tuner and oracles take it; see device/view.hpp.
#pragma once

#include "core/tensor.hpp"
#include "device/view.hpp"

namespace dlblas::cuda {

/// Dimensions of one stride become one, so that a contiguous tensor costs no division. The
/// row-major index of an element stays the same.
inline DeviceView device_view(const TensorView& t) {
  DeviceView view{};
  view.data = t.data;
  view.dtype = t.dtype;
  for (int i = 0; i < t.rank; ++i) {
    if (t.shape[i] == 1) continue;
    const int last = view.rank - 1;
    if (last >= 0 && view.strides[last] == t.strides[i] * t.shape[i]) {
      view.shape[last] *= t.shape[i];
      view.strides[last] = t.strides[i];
    } else {
      view.shape[view.rank] = t.shape[i];
      view.strides[view.rank++] = t.strides[i];
    }
  }
  return view;
}

}  // namespace dlblas::cuda
