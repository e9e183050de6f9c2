// rms_norm_backward with the row in registers: dy and x are read once, dx is written once. Blocks
// are persistent: each of their groups of threads walks the rows at a fixed stride, and holds its
// columns' sums of dweight in registers until the end. In: dy, x [T, C], weight [C], and dresidual.
// Out: dx, and partial sums of dweight [blocks, C] in f32. Flow: call > validate > select > compile
// > [launch]. Read next: ops/norm/rms_norm_backward/rms_norm_backward_stages.cuh.
#pragma once

#include "ops/norm/rms_norm_backward/rms_norm_backward_stages.cuh"

namespace dlblas::norm {

/// What one thread holds of a row: C.vectors accesses, C.threads apart.
template <NormCudaTraits S, BackwardRegistersConfig C>
struct BackwardRegisters {
  static constexpr int N = norm_elements(S);
  using Row = NormVec<S>[C.vectors];
  using Weights = NormWeightVec<S>[C.vectors];
  using Sums = float[C.vectors][N];
  using Sum = RowSum<C.threads>;

  int first;  // the thread's first column
  int width;

  __device__ int column(int i) const { return first + i * C.threads * N; }
  __device__ bool holds(int i) const { return S.full || column(i) < width; }

  __device__ void load(Row& row, const void* base, int64_t offset) const {
    const void* at = at_element<S.type>(base, offset + first);
#pragma unroll
    for (int i = 0; i < C.vectors; ++i)
      row[i] = holds(i) ? load_row<S>(at, i * C.threads * N) : NormVec<S>::zero();
  }
  __device__ void load_weights(Weights& weights, const void* base) const {
#pragma unroll
    for (int i = 0; i < C.vectors; ++i)
      weights[i] = holds(i) ? load_weight<S>(base, column(i)) : NormWeightVec<S>::zero();
  }

  /// Reduces the row's sums over its threads and returns its scale. If f32 cannot hold them, all
  /// threads of the row take the f64 path; other rows of the same warp go along, and keep their f32
  /// result.
  __device__ BackwardScale scale(const Row& x, const Row& dy, const Weights& weights, int64_t row,
                                 const BackwardCudaParams& p, Sum& threads) const {
    GradientSums mine;
#pragma unroll
    for (int i = 0; i < C.vectors; ++i) mine.take<S>(x[i], dy[i], weights[i], p.weight_offset);
    const SumPair sums = threads.sum(mine.sum());
    const bool wide = leaves_f32(sums, p);
    if (C.threads < kWarp ? !__any_sync(0xffffffffu, wide) : !wide) return backward_scale(sums, p);
    WideGradientSums exact;
    exact.take<S, C.threads>(p, row, first, width);
    exact.add_up(threads);
    return wide ? backward_scale(exact, p) : backward_scale(sums, p);
  }
};

/// Adds the sums of a block's groups in order; the first group writes the block's sums.
template <NormCudaTraits S, BackwardRegistersConfig C>
__device__ inline void store_block(const BackwardRegisters<S, C>& at, const BackwardCudaParams& p,
                                   typename BackwardRegisters<S, C>::Sums& sums, int local,
                                   int thread) {
  constexpr int N = norm_elements(S);
  __shared__ float others[C.rows == 1 ? 1 : (C.rows - 1) * N * C.threads];
#pragma unroll
  for (int i = 0; i < C.vectors; ++i) {
    if constexpr (C.rows > 1) {
      __syncthreads();
      if (local > 0)
#pragma unroll
        for (int e = 0; e < N; ++e) others[((local - 1) * N + e) * C.threads + thread] = sums[i][e];
      __syncthreads();
      if (local > 0) continue;
      for (int other = 0; other < C.rows - 1; ++other)
#pragma unroll
        for (int e = 0; e < N; ++e) sums[i][e] += others[(other * N + e) * C.threads + thread];
    }
    if (at.holds(i)) store_partial(p, blockIdx.x, at.column(i), sums[i]);
  }
}

template <NormCudaTraits S, BackwardRegistersConfig C>
__global__ void __launch_bounds__(C.threads* C.rows, C.blocks)
    norm_backward_registers(const __grid_constant__ BackwardCudaParams p) {
  static_assert(valid(S, C));
  using At = BackwardRegisters<S, C>;
  __shared__ double slots[C.rows * At::Sum::kSlots + 1];
  const int local = C.rows == 1 ? 0 : threadIdx.x / C.threads, thread = threadIdx.x % C.threads;
  const At at = {thread * At::N, static_cast<int>(p.width)};
  typename At::Sum threads(slots + local * At::Sum::kSlots, 1 + local, thread);
  typename At::Weights weights;
  at.load_weights(weights, p.weight);
  typename At::Sums sums = {};

  const int64_t step = static_cast<int64_t>(gridDim.x) * C.rows, last = p.rows - 1;
  int64_t base = static_cast<int64_t>(blockIdx.x) * C.rows;
  // Threads without a row work on the last one, but write nothing and add nothing: rows that share
  // a warp stay converged.
  int64_t row = min(base + local, last);
  typename At::Row x, dy, dresidual = {}, next_x, next_dy;
  at.load(x, p.x, row * p.x_stride);
  at.load(dy, p.dy, row * p.dy_stride);
  while (base <= last) {
    const bool mine = base + local <= last;
    // For all the compiler knows, this changes with the row, so weights stay packed.
    const uint32_t zero = p.zero & static_cast<uint32_t>(base);
    const int64_t next = min(base + step + local, last);
    if constexpr (S.add) at.load(dresidual, p.dresidual, row * p.dresidual_stride);
    if constexpr (C.prefetch) {
      at.load(next_x, p.x, next * p.x_stride);
      at.load(next_dy, p.dy, next * p.dy_stride);
    }
#pragma unroll
    for (int i = 0; i < C.vectors; ++i) weights[i] = hide(weights[i], zero);
    const BackwardScale scale = at.scale(x, dy, weights, row, p, threads);
#pragma unroll
    for (int i = 0; i < C.vectors; ++i) {
      if (!mine || !at.holds(i)) continue;
      const NormVec<S> dx =
          write_gradient<S>(hide(x[i], zero), hide(dy[i], zero), hide(weights[i], zero),
                            dresidual[i], scale, p.weight_offset, sums[i]);
      store_row<S>(p.dx, row * p.dx_stride + at.column(i), dx);
    }
    base += step;
    row = next;
    if constexpr (C.prefetch) {
#pragma unroll
      for (int i = 0; i < C.vectors; ++i) x[i] = next_x[i], dy[i] = next_dy[i];
    } else if (base <= last) {
      at.load(x, p.x, row * p.x_stride);
      at.load(dy, p.dy, row * p.dy_stride);
    }
  }
  launch_dependents();
  store_block<S, C>(at, p, sums, local, thread);
}

}  // namespace dlblas::norm
