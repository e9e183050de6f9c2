// RMS norm with one row a block (or a cluster of blocks), of any length: a first pass sums the
// squares, a second scales. h lies in shared memory between the two (cuda_shared, cuda_cluster), or
// is read again, mostly from cache (cuda_rows). In: x [T, C], weight [C], and residual. Out: y, and
// residual_out. A thread reads its own elements before it writes them, so results may lie where x
// and residual do. Flow: call > validate > select > compile > [launch].
// Read next: ops/norm/cuda/norm_stages.cuh.
#pragma once

#include "device/pdl.cuh"
#include "ops/norm/cuda/norm_tile.cuh"

namespace dlblas {

/// A block's part of a row, in columns.
struct NormPart {
  int64_t row, begin, columns;
};

/// The first pass: h kept, and written with `add`; a thread's sum of squares. f32 chains are at
/// most 64 · C.vectors · N / 4 long, and are added up in f64.
template <NormCudaTraits S, NormBlockConfig C, typename Tile>
__device__ inline float keep_and_sum(Tile tile, void* kept, const NormPart& part,
                                     const NormCudaParams& p) {
  double sum = 0;
  Squares squares;
  int rounds = 0;
#pragma unroll 1
  for (int64_t start = 0; start < part.columns; start += Tile::kColumns) {
    const int64_t at = part.begin + start;
    typename Tile::Row x, residual, h;
    tile.hold(part.columns - start);
    tile.load(x, p.x, part.row * p.x_stride + at);
    if constexpr (S.add) tile.load(residual, p.residual, part.row * p.residual_stride + at);
    tile.add(h, x, residual);
    tile.squares(squares, h);
    if constexpr (S.add) tile.store(p.residual_out, part.row * p.residual_out_stride + at, h);
    if constexpr (C.keep) tile.keep(kept, start, h);
    if (++rounds % 64 == 0) {
      sum += squares.sum();
      squares = Squares();
    }
  }
  return static_cast<float>(sum + squares.sum());
}

/// The second pass.
template <NormCudaTraits S, NormBlockConfig C, typename Tile>
__device__ inline void normalize_part(Tile tile, const void* kept, const NormPart& part,
                                      RowScale scale, const NormCudaParams& p) {
#pragma unroll 1
  for (int64_t start = 0; start < part.columns; start += Tile::kColumns) {
    const int64_t at = part.begin + start;
    typename Tile::Row h;
    typename Tile::Weights weights;
    tile.hold(part.columns - start);
    if constexpr (C.keep)
      tile.load_kept(h, kept, start);
    else
      tile.template load<Cache::kStream>(h, h_of<S>(p, part.row), at);
    tile.load_weights(weights, p.weight, at);
    tile.normalize(h, weights, scale, p.weight_offset);
    tile.store(p.y, part.row * p.y_stride + at, h);
  }
}

template <NormCudaTraits S, NormBlockConfig C>
__global__ void __launch_bounds__(C.threads, norm_blocks(S, C))
    norm_block(const __grid_constant__ NormCudaParams p) {
  static_assert(valid(S, C, 90) && !S.full);
  using Tile = NormTile<S, C.threads, C.vectors>;
  extern __shared__ __align__(16) unsigned char kept[];
  __shared__ double slots[RowSum<C.threads>::kSlots + 1];
  __shared__ typename ClusterSum<C.cluster>::Shared parts;
  RowSum<C.threads> threads(slots, 1, threadIdx.x);
  ClusterSum<C.cluster> blocks(parts, threadIdx.x);
  const Tile tile = {static_cast<int>(threadIdx.x) * Tile::N, 0};
  wait_for_dependencies();
  launch_dependents();
  blocks.start();
  // Whole accesses.
  const int64_t share = (p.width / Tile::N + C.cluster - 1) / C.cluster * Tile::N;
  const int64_t begin = C.cluster == 1 ? 0 : min(p.width, share * cluster_rank());
  const NormPart part = {blockIdx.x / C.cluster, begin, min(p.width - begin, share)};
  const float sum = keep_and_sum<S, C>(tile, kept, part, p);
  const RowScale scale = row_scale<S.type>(sum, p, threads, blocks, [&] {
    return squares_wide<S>(h_of<S>(p, part.row), begin, begin + part.columns, threads);
  });
  // Every thread its own accesses: what it writes, only it reads.
  normalize_part<S, C>(tile, kept, part, scale, p);
}

}  // namespace dlblas
