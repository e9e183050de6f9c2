// rms_norm_backward for any width and any layout: one kernel computes r and s of every row, a
// second walks a tile of columns down a group of rows. Everything is read twice, so it serves what
// cuda_registers cannot hold. In: dy, x [T, C], weight [C], and dresidual, each with its own
// strides. Out: dx, and partial sums of dweight [groups, C] in f32. Numerics: the sums behind r and
// s are in f64. Flow: call > validate > select > compile > [launch].
// Read next: ops/norm/rms_norm_backward/rms_norm_backward_stages.cuh.
#pragma once

#include "ops/norm/rms_norm_backward/rms_norm_backward_stages.cuh"

namespace dlblas::norm {

/// Element offset of a row: all dimensions but the last.
__device__ inline int64_t row_offset(const StridedView& t, int64_t row) {
  int64_t offset = 0;
#pragma unroll 1
  for (int i = t.rank - 2; i >= 0; --i) {
    const int64_t next = row / t.shape[i];
    offset += (row - next * t.shape[i]) * t.strides[i];
    row = next;
  }
  return offset;
}
/// The same. Accesses of several elements require rows at one stride: the divisions of row_offset
/// are calls, and too many registers would be saved across them.
template <NormCudaTraits S>
__device__ inline int64_t offset_of_row(const StridedView& t, int64_t row) {
  if constexpr (norm_elements(S) > 1)
    return row * t.strides[0];
  else
    return row_offset(t, row);
}
/// The stride between columns.
__device__ inline int64_t column_stride(const StridedView& t) {
  return t.rank > 0 ? t.strides[t.rank - 1] : 0;
}

/// Blocks per multiprocessor that ptxas plans for; 0: its own choice. Before sm_90 it chooses eight
/// for single f32 elements, and spills.
template <NormCudaTraits S>
constexpr int scales_blocks() {
#if __CUDA_ARCH__ < 900
  if (S.type == DType::kF32 && norm_elements(S) == 1) return 6;
#endif
  return 0;
}

/// Computes scales[row] of every row, with C.threads threads per row.
template <NormCudaTraits S, BackwardColumnsConfig C>
__global__ void __launch_bounds__(kBackwardColumnsBlock, scales_blocks<S>())
    norm_backward_scales(const __grid_constant__ BackwardColumnsParams p) {
  constexpr int N = norm_elements(S), kRows = kBackwardColumnsBlock / C.threads;
  using Sum = RowSum<C.threads>;
  __shared__ double slots[kRows * Sum::kSlots + 1];
  const int local = threadIdx.x / C.threads, thread = threadIdx.x % C.threads;
  Sum threads(slots + local * Sum::kSlots, 1 + local, thread);
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRows + local;
  WideGradientSums sums;
  if (row < p.call.rows) {
    const int64_t x0 = offset_of_row<S>(p.x, row), dy0 = offset_of_row<S>(p.dy, row);
    for (int64_t c = thread * N; c < p.call.width; c += C.threads * N) {
      float x[N], dy[N], weight[N];
      load_row<S>(p.call.x, x0 + c * column_stride(p.x)).unpack(x);
      load_row<S>(p.call.dy, dy0 + c * column_stride(p.dy)).unpack(dy);
      load_weight<S>(p.call.weight, c * p.weight_stride).unpack(weight);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const double factor = static_cast<double>(weight[i]) + p.call.weight_offset;
        sums.squares += static_cast<double>(x[i]) * x[i];
        sums.products += dy[i] * factor * x[i];
      }
    }
  }
  sums.add_up(threads);
  if (row < p.call.rows && thread == 0)
    static_cast<BackwardScale*>(p.scales)[row] = backward_scale(sums, p.call);
}

/// Computes dx and each group's sums of dweight. Blocks are numbered by tile of C.threads · N
/// columns first, then by group.
template <NormCudaTraits S, BackwardColumnsConfig C>
__global__ void __launch_bounds__(kBackwardColumnsBlock)
    norm_backward_columns(const __grid_constant__ BackwardColumnsParams p) {
  constexpr int N = norm_elements(S), kRows = kBackwardColumnsBlock / C.threads;
  const int64_t tiles = (p.call.width + C.threads * N - 1) / (C.threads * N);
  const int64_t group = blockIdx.x / tiles * kRows + threadIdx.x / C.threads;
  const int64_t c = (blockIdx.x % tiles * C.threads + threadIdx.x % C.threads) * N;
  if (c >= p.call.width) return;
  const NormWeightVec<S> weight = load_weight<S>(p.call.weight, c * p.weight_stride);
  const auto* scales = static_cast<const BackwardScale*>(p.scales);
  const int64_t last = min(p.call.rows, (group + 1) * p.rows_per_group);
  float sums[N] = {};
  for (int64_t row = group * p.rows_per_group; row < last; ++row) {
    const NormVec<S> x = load_row<S>(p.call.x, offset_of_row<S>(p.x, row) + c * column_stride(p.x));
    const NormVec<S> dy =
        load_row<S>(p.call.dy, offset_of_row<S>(p.dy, row) + c * column_stride(p.dy));
    NormVec<S> dresidual = NormVec<S>::zero();
    if constexpr (S.add)
      dresidual = load_row<S>(p.call.dresidual,
                              offset_of_row<S>(p.dresidual, row) + c * column_stride(p.dresidual));
    const NormVec<S> dx =
        write_gradient<S>(x, dy, weight, dresidual, scales[row], p.call.weight_offset, sums);
    store_row<S>(p.call.dx, offset_of_row<S>(p.dx, row) + c * column_stride(p.dx), dx);
  }
  store_partial(p.call, group, c, sums);
}

}  // namespace dlblas::norm
