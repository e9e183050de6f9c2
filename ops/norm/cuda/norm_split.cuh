// RMS norm of long rows, divided over the whole grid: a chunk's squares are summed, and `lag` rows
// later, when the row's sum is known and its elements are still in L2, the chunk is read again and
// scaled. So DRAM is read once, and few rows are in flight.
// Blocks draw items (row, chunk) in order from a ticket counter: an item first sums its chunk,
// without waiting, then scales the same chunk of the row `lag` rows earlier, whose sums all belong
// to earlier tickets. So a block waits only for sums of blocks that are running and need not wait:
// no cooperative launch, any grid size, any other work on the device.
// In: x [T, C], weight [C], and residual. Out: y, and residual_out.
// Flow: call > validate > select > compile > [launch].  Read next: ops/norm/cuda/norm_tile.cuh.
#pragma once

#include "device/pdl.cuh"
#include "ops/norm/cuda/grid_row_sum.cuh"
#include "ops/norm/cuda/norm_tile.cuh"

namespace dlblas::norm {

/// Sums chunk `chunk` of a row and, with `add`, writes its h.
template <NormCudaTraits S, NormSplitConfig C, typename Tile>
__device__ inline void sum_chunk(Tile tile, int64_t row, int chunk, RowSum<C.threads>& threads,
                                 const NormSplitParams& p) {
  const NormCudaParams& call = p.call;
  const int64_t start = static_cast<int64_t>(chunk) * Tile::kColumns;
  tile.hold(call.width - start);
  typename Tile::Row x, residual, h;
  tile.load(x, call.x, row * call.x_stride + start);
  if constexpr (S.add) tile.load(residual, call.residual, row * call.residual_stride + start);
  tile.add(h, x, residual);
  if constexpr (S.add) tile.store(call.residual_out, row * call.residual_out_stride + start, h);
  const float sum = threads.sum(tile.squares(h));
  const double part = leaves_f32(sum, call)
                          ? squares_wide<S>(h_of<S>(call, row), start, start + tile.width, threads)
                          : sum;
  // RowSum's barrier follows every thread's writes of h: thread 0 publishes them with the sum.
  if (threadIdx.x < kWarp) publish_part(part, row, chunk, p.row_sum);
}

/// Scales chunk `chunk` of a row whose sums are complete or in progress.
template <NormCudaTraits S, NormSplitConfig C, typename Tile>
__device__ inline void scale_chunk(Tile tile, int64_t row, int chunk, double* shared,
                                   const NormSplitParams& p) {
  const NormCudaParams& call = p.call;
  const int64_t start = static_cast<int64_t>(chunk) * Tile::kColumns;
  tile.hold(call.width - start);
  typename Tile::Weights weights;
  typename Tile::Row h;
  tile.load_weights(weights, call.weight, start);
  // Only this item writes its part of x, so its loads may be issued before the sum is known.
  if constexpr (!S.add) tile.load(h, call.x, row * call.x_stride + start);
  const double total = wait_total(row, shared, p.row_sum);
  if constexpr (S.add) tile.load(h, call.residual_out, row * call.residual_out_stride + start);
  tile.normalize(h, weights, row_scale<S.type>(total, call), call.weight_offset);
  tile.template store<Cache::kStream>(call.y, row * call.y_stride + start, h);
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
  launch_dependents();
  for (;;) {
    if (threadIdx.x == 0) {
      const uint32_t item = atomicAdd(p.ticket, 1u), row = item / p.row_sum.members;
      shared_row = row;
      shared_chunk = static_cast<int>(item - row * p.row_sum.members);
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

}  // namespace dlblas::norm
