// RMS norm of long rows, divided over the whole grid: a chunk's squares are summed, and `lag` rows
// later, when the row's sum is there and its elements still lie in L2, the chunk is read again and
// scaled. So memory is read once and few rows are in flight.
// Blocks take items (row, chunk) in order from a ticket: an item first sums its chunk, which waits
// for nobody, then scales the same chunk of the row `lag` before, whose sums were all taken by
// earlier tickets. So a waiting block waits only for blocks that run and will not wait: no
// cooperative launch, any grid, any neighbours on the device.
// In: x [T, C], weight [C], and residual. Out: y, and residual_out.
// Flow: call > validate > select > compile > [launch].  Read next: ops/norm/norm_tile.cuh.
#pragma once

#include "device/pdl.cuh"
#include "ops/norm/norm_tile.cuh"

namespace dlblas {

namespace split {

__device__ inline double load_acquire(const double* from) {
  double value;
  asm volatile("ld.acquire.gpu.global.f64 %0, [%1];" : "=d"(value) : "l"(from) : "memory");
  return value;
}
__device__ inline void store_release(double* to, double value) {
  asm volatile("st.release.gpu.global.f64 [%0], %1;" ::"l"(to), "d"(value) : "memory");
}
/// Adds 1; what this thread and those it synchronised with wrote before is seen by who reads the
/// new value, and the other way round.
__device__ inline uint32_t count_in(uint32_t* counter) {
  uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(counter)
               : "memory");
  return before;
}

/// The first warp hands in a chunk's sum; the row's last to come adds up all parts, in the order of
/// chunks, and publishes the total.
__device__ inline void hand_in(double sum, int64_t row, int chunk, const NormSplitParams& p) {
  const int lane = threadIdx.x;
  double* parts = p.parts + row * p.chunks;
  uint32_t before = 0;
  if (lane == 0) {
    parts[chunk] = sum;
    before = count_in(p.arrived + row);
  }
  if (__shfl_sync(0xffffffffu, before, 0) + 1 != p.chunks) return;
  __threadfence();  // lane 0 saw all arrive; now the warp sees what they wrote
  double total = 0;
  for (int i = lane; i < p.chunks; i += kWarp) total += __ldcg(parts + i);
  total = warp_sum(total);
  // 0 is "not there": a row of zeros says so by the sign.
  if (lane == 0) store_release(p.totals + row, total == 0 ? -1.0 : total);
}

/// Waits for a row's total; all threads get it.
__device__ inline double total_of(int64_t row, double* shared, const NormSplitParams& p) {
  if (threadIdx.x == 0) {
    double total = 0;
    while ((total = load_acquire(p.totals + row)) == 0) __nanosleep(32);
    *shared = total < 0 ? 0 : total;
  }
  __syncthreads();
  return *shared;
}

}  // namespace split

/// Sums chunk `chunk` of a row and, with `add`, writes its h.
template <NormCudaTraits S, NormSplitConfig C, typename Tile>
__device__ inline void sum_chunk(Tile tile, int64_t row, int chunk, RowSum<C.threads>& threads,
                                 const NormSplitParams& p) {
  const NormCudaParams& call = p.call;
  const int64_t start = static_cast<int64_t>(chunk) * Tile::kColumns;
  tile.width = static_cast<int>(min(call.width - start, static_cast<int64_t>(Tile::kColumns)));
  typename Tile::Row x, residual, h;
  tile.load(x, call.x, row * call.x_stride + start);
  if constexpr (S.add) tile.load(residual, call.residual, row * call.residual_stride + start);
  tile.add(h, x, residual);
  if constexpr (S.add) tile.store(call.residual_out, row * call.residual_out_stride + start, h);
  const float sum = threads.sum(tile.squares(h));
  double exact = sum;
  if (leaves_f32(sum, call))
    exact = threads.sum(tile.squares_wide(h_base<S>(call), h_offset<S>(call, row) + start));
  // RowSum's barrier came after every thread's writes of h: thread 0 hands them in with the sum.
  if (threadIdx.x < kWarp) split::hand_in(exact, row, chunk, p);
}

/// Scales chunk `chunk` of a row whose sums are on their way.
template <NormCudaTraits S, NormSplitConfig C, typename Tile>
__device__ inline void scale_chunk(Tile tile, int64_t row, int chunk, double* shared,
                                   const NormSplitParams& p) {
  const NormCudaParams& call = p.call;
  const int64_t start = static_cast<int64_t>(chunk) * Tile::kColumns;
  tile.width = static_cast<int>(min(call.width - start, static_cast<int64_t>(Tile::kColumns)));
  typename Tile::Weights weights;
  typename Tile::Row h;
  tile.load_weights(weights, call.weight, start);
  // x is nobody's to write but this item's: it may be asked for before the sum is there.
  if constexpr (!S.add) tile.load(h, call.x, row * call.x_stride + start);
  const double total = split::total_of(row, shared, p);
  if constexpr (S.add) tile.load(h, call.residual_out, row * call.residual_out_stride + start);
  if (leaves_f32(total, call)) {
    tile.normalize_wide(call, row, start, wide_scale(total, call));
  } else {
    tile.normalize(h, weights, norm_scale(static_cast<float>(total), call), call);
    tile.template store<Cache::kStream>(call.y, row * call.y_stride + start, h);
  }
}

template <NormCudaTraits S, NormSplitConfig C>
__global__ void __launch_bounds__(C.threads, C.blocks)
    norm_split(const __grid_constant__ NormSplitParams p) {
  static_assert(valid(S, C, 90) && !S.full);
  using Tile = NormTile<S, C.threads, C.vectors>;
  __shared__ double slots[RowSum<C.threads>::kSlots + 1], total;
  __shared__ int64_t shared_row;
  __shared__ int shared_chunk;
  RowSum<C.threads> threads(slots, 1, threadIdx.x);
  const Tile tile = {static_cast<int>(threadIdx.x) * Tile::N, 0};
  wait_for_dependencies();
  for (;;) {
    if (threadIdx.x == 0) {
      const int64_t item = atomicAdd(p.ticket, 1u);
      shared_row = item / p.chunks;
      shared_chunk = static_cast<int>(item - shared_row * p.chunks);
    }
    __syncthreads();
    const int64_t row = shared_row;
    const int chunk = shared_chunk;
    if (row >= p.call.rows + p.lag) break;
    if (row < p.call.rows) sum_chunk<S, C>(tile, row, chunk, threads, p);
    if (row >= p.lag) scale_chunk<S, C>(tile, row - p.lag, chunk, &total, p);
    __syncthreads();  // the shared values are read before the next item's are written
  }
}

}  // namespace dlblas
