// A strided tensor of any dtype and layout: what the host binds to a call (core/tensor.hpp adds
// where the memory is), and what kernels for any layout, the tuner's and the oracles', receive by
// value. Plain values, read by g++ and NVRTC alike. Read next: core/tensor.hpp,
// device/element_f64.cuh.
#pragma once

#include "device/types.hpp"

namespace dlblas {

inline constexpr int kMaxRank = 8;

/// Strides are in elements. Not initialised: only the first `rank` entries are valid.
struct StridedView {
  void* data;
  int64_t shape[kMaxRank];
  int64_t strides[kMaxRank];
  int32_t rank;
  DType dtype;
};

/// The same elements with fewer dimensions: drops dimensions of size 1 and merges neighbours that
/// one stride covers, so that a contiguous tensor costs no division. An element keeps its row-major
/// index. The last `inner` dimensions are left alone.
constexpr StridedView merged(const StridedView& t, int inner = 0) {
  StridedView view{};
  view.data = t.data;
  view.dtype = t.dtype;
  for (int i = 0; i < t.rank; ++i) {
    const bool alone = i >= t.rank - inner;
    if (t.shape[i] == 1 && !alone) continue;
    const int last = view.rank - 1;
    if (last >= 0 && !alone && view.strides[last] == t.strides[i] * t.shape[i]) {
      view.shape[last] *= t.shape[i];
      view.strides[last] = t.strides[i];
    } else {
      view.shape[view.rank] = t.shape[i];
      view.strides[view.rank++] = t.strides[i];
    }
  }
  return view;
}

}  // namespace dlblas
