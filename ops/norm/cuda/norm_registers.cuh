// RMS norm with the row in registers: one read and one write of each element. Several rows a block,
// each with its own threads and barrier; or a row over a cluster of blocks, whose parts of the sum
// meet in each other's shared memory. In: x [T, C], weight [C], and residual. Out: y, and
// residual_out. A thread reads its own elements before it writes them, so results may lie where x
// and residual do. Flow: call > validate > select > compile > [launch].
// Read next: ops/norm/cuda/norm_tile.cuh, ops/norm/cuda/norm_stages.cuh.
#pragma once

#include "device/pdl.cuh"
#include "ops/norm/cuda/norm_tile.cuh"

namespace dlblas {

template <NormCudaTraits S, NormRegistersConfig C>
__global__ void __launch_bounds__(C.threads* C.rows, norm_blocks(S, C))
    norm_registers(const __grid_constant__ NormCudaParams p) {
  static_assert(valid(S, C, 90));
  using Tile = NormTile<S, C.threads, C.vectors>;
  using Threads = RowSum<C.threads>;
  __shared__ double slots[C.rows * Threads::kSlots + 1];
  __shared__ typename ClusterSum<C.cluster>::Shared parts;
  const int local = C.rows == 1 ? 0 : threadIdx.x / C.threads, thread = threadIdx.x % C.threads;
  const int rank = C.cluster == 1 ? 0 : static_cast<int>(cluster_rank());
  const Tile tile = {rank * Tile::kColumns + thread * Tile::N, static_cast<int>(p.width)};
  Threads threads(slots + local * Threads::kSlots, 1 + local, thread);
  ClusterSum<C.cluster> blocks(parts, threadIdx.x);
  wait_for_dependencies();
  launch_dependents();
  typename Tile::Weights weights;
  if constexpr (C.early_weight) tile.load_weights(weights, p.weight, 0);
  // Threads of a row that is not there work on the last one and write nothing: rows that share a
  // warp stay together.
  const int64_t place = static_cast<int64_t>(blockIdx.x / C.cluster) * C.rows + local;
  const bool mine = place < p.rows;
  const int64_t row = mine ? place : p.rows - 1;
  typename Tile::Row x, residual, h;
  constexpr Cache kRows = C.last ? Cache::kLast : Cache::kDefault;
  tile.template load<kRows>(x, p.x, row * p.x_stride);
  if constexpr (S.add) tile.template load<kRows>(residual, p.residual, row * p.residual_stride);
  if constexpr (C.early_weight) ask_here(p);
  blocks.start();
  tile.add(h, x, residual);
  if (S.add && mine) tile.store(p.residual_out, row * p.residual_out_stride, h);
  const RowScale scale = row_scale<S.type>(tile.squares(h), p, threads, blocks, [&] {
    const int first = rank * Tile::kColumns, end = min(tile.width, first + Tile::kColumns);
    return squares_wide<S>(h_of<S>(p, row), first, end, threads);
  });
  if (!mine) return;
  if constexpr (!C.early_weight) tile.load_weights(weights, p.weight, 0);
  tile.normalize(h, weights, scale, p.weight_offset);
  tile.store(p.y, row * p.y_stride, h);
}

}  // namespace dlblas
