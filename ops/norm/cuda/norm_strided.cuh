// RMS norm of tensors that lie in memory anyhow: any strides, broadcasts, any alignment, element by
// element. One block a row, two passes; the plain version, and what runs where no other does.
// In: x [T, C], weight [C], and residual. Out: y, and residual_out.
// Flow: call > validate > select > compile > [launch].  Read next: ops/norm/cuda/norm_stages.cuh.
#pragma once

#include "device/pdl.cuh"
#include "ops/norm/cuda/norm_stages.cuh"

namespace dlblas {

/// Element offset of a row.
__device__ inline int64_t row_offset(const NormRowMap& map, int64_t row) {
  int64_t offset = 0;
#pragma unroll 1
  for (int i = static_cast<int>(map.rank) - 1; i >= 0; --i) {
    const int64_t next = row / map.shape[i];
    offset += (row - next * map.shape[i]) * map.strides[i];
    row = next;
  }
  return offset;
}

template <NormCudaTraits S, int kThreads>
__global__ void __launch_bounds__(kThreads, 4)
    norm_strided(const __grid_constant__ NormStridedParams p) {
  __shared__ double slots[RowSum<kThreads>::kSlots];
  __shared__ int64_t offsets[kNormMaps];
  RowSum<kThreads> threads(slots, 1, threadIdx.x);
  const NormCudaParams& call = p.call;
  wait_for_dependencies();
  launch_dependents();
  const NormRowMap& h_map = p.maps[S.add ? kNormResidualOut : kNormX];
  const void* h = S.add ? call.residual_out : call.x;
  for (int64_t row = blockIdx.x; row < call.rows; row += gridDim.x) {
    __syncthreads();  // the last row's offsets are read
    if (threadIdx.x < kNormMaps) offsets[threadIdx.x] = row_offset(p.maps[threadIdx.x], row);
    __syncthreads();
    double sum = 0;
#pragma unroll 2  // four cost a third of the compile time
    for (int64_t c = threadIdx.x; c < call.width; c += kThreads) {
      float v = load_element<S.type, S.align>(call.x, offsets[kNormX] + c * p.maps[kNormX].inner);
      if constexpr (S.add) {
        v += load_element<S.type, S.align>(
            call.residual, offsets[kNormResidual] + c * p.maps[kNormResidual].inner);
        v = round_to<S.type>(v);
        store_element<S.type, S.align>(call.residual_out,
                                       offsets[kNormResidualOut] + c * h_map.inner, v);
      }
      sum += static_cast<double>(v) * v;
    }
    const double total = threads.sum(sum);
    const RowScale scale = row_scale<FloatType::kF32>(total, call);
#pragma unroll 2
    for (int64_t c = threadIdx.x; c < call.width; c += kThreads) {
      float v = load_element<S.type, S.align>(
                    h, offsets[S.add ? kNormResidualOut : kNormX] + c * h_map.inner) *
                scale.first * scale.second;
      if constexpr (S.cast_before_weight) v = round_to<S.type>(v);
      const float weight = load_element<S.weight, S.weight_align>(call.weight, c * p.weight_stride);
      store_element<S.type, S.align>(call.y, offsets[kNormY] + c * p.maps[kNormY].inner,
                                     v * (weight + call.weight_offset));
    }
  }
}

}  // namespace dlblas
