// RMS norm of tensors that lie in memory anyhow: any strides, broadcasts, any alignment, element by
// element. One block a row, two passes; the plain version, and what runs where no other does.
// In: x [T, C], weight [C], and residual. Out: y, and residual_out.
// Flow: call > validate > select > compile > [launch].  Read next: ops/norm/norm_stages.cuh.
#pragma once

#include "ops/norm/norm_stages.cuh"

namespace dlblas {

/// Element offset of a row.
__device__ inline int64_t row_offset(const NormRowMap& map, int64_t row) {
  int64_t offset = 0;
  for (int i = static_cast<int>(map.rank) - 1; i >= 0; --i) {
    offset += row % map.shape[i] * map.strides[i];
    row /= map.shape[i];
  }
  return offset;
}

/// One tensor's row, element by element.
template <NormCudaTraits S>
struct StridedRow {
  void* base;
  int64_t offset, inner;

  __device__ StridedRow(const void* data, const NormRowMap& map, int64_t row)
      : base(const_cast<void*>(data)), offset(row_offset(map, row)), inner(map.inner) {}
  __device__ float load(int64_t c) const {
    return load_element<S.type, S.align>(base, offset + c * inner);
  }
  __device__ void store(int64_t c, float value) const {
    store_element<S.type, S.align>(base, offset + c * inner, value);
  }
};

template <NormCudaTraits S, int kThreads>
__global__ void __launch_bounds__(kThreads)
    norm_strided(const __grid_constant__ NormStridedParams p) {
  __shared__ double slots[RowSum<kThreads>::kSlots];
  RowSum<kThreads> threads(slots, 1, threadIdx.x);
  const NormCudaParams& call = p.call;
  for (int64_t row = blockIdx.x; row < call.rows; row += gridDim.x) {
    const StridedRow<S> x(call.x, p.x, row), y(call.y, p.y, row);
    const StridedRow<S> residual(call.residual, p.residual, row);
    const StridedRow<S> residual_out(call.residual_out, p.residual_out, row);
    const StridedRow<S>& h = S.add ? residual_out : x;
    double sum = 0;
    for (int64_t c = threadIdx.x; c < call.width; c += kThreads) {
      float v = x.load(c);
      if constexpr (S.add) {
        v = round_to<S.type>(v + residual.load(c));
        residual_out.store(c, v);
      }
      sum += static_cast<double>(v) * v;
    }
    const double scale = wide_scale(threads.sum(sum), call);
    for (int64_t c = threadIdx.x; c < call.width; c += kThreads) {
      double v = h.load(c) * scale;
      if constexpr (S.cast_before_weight) v = round_to<S.type>(static_cast<float>(v));
      const double weight =
          load_element<S.weight, S.weight_align>(call.weight, c * p.weight_stride);
      y.store(c, static_cast<float>(v * (weight + call.weight_offset)));
    }
  }
}

}  // namespace dlblas
