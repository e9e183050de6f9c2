// RMS norm with one row a block (or a cluster of blocks), of any length: a first pass sums the
// squares, a second scales. h lies in shared memory between the two (cuda_shared, cuda_cluster), or
// is read again, mostly from cache (cuda_rows). In: x [T, C], weight [C], and residual. Out: y, and
// residual_out. A thread reads its own elements before it writes them, so results may lie where x
// and residual do. Flow: call > validate > select > compile > [launch].
// Read next: ops/norm/norm_stages.cuh.
#pragma once

#include "device/pdl.cuh"
#include "ops/norm/norm_stages.cuh"

namespace dlblas {

/// A block's part of a row, in accesses of N elements.
struct NormPart {
  int64_t begin, end;
};

/// The first pass: h kept, and written with `add`; a thread's sum of squares. f32 chains are at
/// most 64 · C.vectors · N / 4 long, and are added up in f64.
template <NormCudaTraits S, NormBlockConfig C>
__device__ inline float keep_and_sum(NormVec<S>* kept, NormPart part, int64_t row,
                                     const NormCudaParams& p) {
  constexpr int N = norm_elements(S);
  double sum = 0;
  Squares squares;
  int rounds = 0;
  for (int64_t first = part.begin + threadIdx.x; first < part.end; first += C.threads * C.vectors) {
    NormVec<S> h[C.vectors], residual[C.vectors];
#pragma unroll
    for (int i = 0; i < C.vectors; ++i) {
      const int64_t at = first + i * C.threads;
      h[i] = residual[i] = NormVec<S>::zero();
      if (at >= part.end) continue;
      h[i] = load_row<S>(p.x, row * p.x_stride + at * N);
      if constexpr (S.add) residual[i] = load_row<S>(p.residual, row * p.residual_stride + at * N);
    }
#pragma unroll
    for (int i = 0; i < C.vectors; ++i) {
      const int64_t at = first + i * C.threads;
      if constexpr (S.add) h[i] = add_residual<S>(h[i], residual[i]);
      squares.take(h[i]);
      if (at >= part.end) continue;
      if constexpr (S.add) store_row<S>(p.residual_out, row * p.residual_out_stride + at * N, h[i]);
      if constexpr (C.keep) kept[at - part.begin] = h[i];
    }
    if (++rounds % 64 == 0) {
      sum += squares.sum();
      squares = Squares();
    }
  }
  return static_cast<float>(sum + squares.sum());
}

/// The second pass.
template <NormCudaTraits S, NormBlockConfig C>
__device__ inline void normalize_part(const NormVec<S>* kept, NormPart part, int64_t row,
                                      RowScale scale, const NormCudaParams& p) {
  constexpr int N = norm_elements(S);
  for (int64_t first = part.begin + threadIdx.x; first < part.end; first += C.threads * C.vectors) {
    NormVec<S> h[C.vectors];
    NormWeightVec<S> weight[C.vectors];
#pragma unroll
    for (int i = 0; i < C.vectors; ++i) {
      const int64_t at = first + i * C.threads;
      if (at >= part.end) continue;
      if constexpr (C.keep)
        h[i] = kept[at - part.begin];
      else
        h[i] = load_row<S, Cache::kStream>(h_of<S>(p, row), at * N);
      weight[i] = load_weight<S>(p.weight, at * N);
    }
#pragma unroll
    for (int i = 0; i < C.vectors; ++i) {
      const int64_t at = first + i * C.threads;
      if (at < part.end)
        store_row<S>(p.y, row * p.y_stride + at * N,
                     normalize<S>(h[i], weight[i], scale, p.weight_offset));
    }
  }
}

template <NormCudaTraits S, NormBlockConfig C>
__global__ void __launch_bounds__(C.threads, kMaxBlockThreads / C.threads)
    norm_block(const __grid_constant__ NormCudaParams p) {
  static_assert(valid(S, C, 90));
  constexpr int N = norm_elements(S);
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  auto* kept = reinterpret_cast<NormVec<S>*>(dynamic_shared);
  __shared__ double slots[RowSum<C.threads>::kSlots + 1];
  __shared__ typename ClusterSum<C.cluster>::Shared parts;
  RowSum<C.threads> threads(slots, 1, threadIdx.x);
  ClusterSum<C.cluster> blocks(parts, threadIdx.x);
  wait_for_dependencies();
  launch_dependents();
  blocks.start();
  const int64_t accesses = p.width / N, share = (accesses + C.cluster - 1) / C.cluster;
  const int64_t begin = C.cluster == 1 ? 0 : min(accesses, share * cluster_rank());
  const NormPart part = {begin, min(accesses, begin + share)};
  const int64_t row = blockIdx.x / C.cluster;
  const float sum = keep_and_sum<S, C>(kept, part, row, p);
  // Every thread its own accesses: what it writes, only it reads.
  const int64_t first = (part.begin + threadIdx.x) * N, end = part.end * N;
  const RowScale scale = row_scale(sum, p, threads, blocks, [&] {
    return squares_wide<S, C.threads>(h_of<S>(p, row), first, end);
  });
  normalize_part<S, C>(kept, part, row, scale, p);
}

}  // namespace dlblas
