// The product of one to four rows (decoding one sequence), bound by memory bandwidth alone. A warp
// reads whole lines of its columns of b, 512 bytes at a time, and multiplies in f32.
// In: a [M, K] with contiguous rows, b [K, N] contiguous along K; f16 or bf16; K a multiple of 8;
// rows 16-byte aligned; an epilogue. With two parts both b are alike, and their columns alternate.
// Out: the epilogue's.
// Numerics: a lane has two f32 multiply-add chains per result, of at most kGemvChain terms; their
// sums are added in order, lanes as a tree, parts of K in order. No tensor core: no truncation.
// Flow: [launch], of ops/gemm/matmul/cuda/matmul_gemv_cuda.cpp for one.
// Read next: epilogue.cuh, rows_mainloop.cuh (up to 16 rows).
#pragma once

#include "device/gemm/epilogue.cuh"
#include "device/pdl.cuh"
#include "device/reduce.cuh"

namespace dlblas {

/// Elements of K in one access of a warp: eight per lane.
inline constexpr int kGemvStep = 256;
/// Terms of a chain. Errors of equal terms add up: of one chain of 4,096 they were 950 units of
/// rounding, twice cuBLAS's.
inline constexpr int kGemvChain = 128;

/// Sums of a lane: two chains for each column and row.
template <GemmTraits S, GemvConfig C>
using GemvSums = float[C.columns][S.rows][2];

/// Sums of ended chains.
template <GemmTraits S, GemvConfig C>
using GemvTotals = float[C.columns][S.rows];

template <GemmTraits S, GemvConfig C>
__device__ __forceinline__ void end_chains(GemvSums<S, C>& sums, GemvTotals<S, C>& totals) {
#pragma unroll
  for (int c = 0; c < C.columns; ++c)
#pragma unroll
    for (int m = 0; m < S.rows; ++m) {
      totals[c][m] += sums[c][m][0] + sums[c][m][1];
      sums[c][m][0] = sums[c][m][1] = 0;
    }
}

/// What a product multiplies: eight elements of each row of a, zeros where there are none.
template <GemmTraits S>
struct GemvRows {
  const GemmCall& p;
  __device__ __forceinline__ void load(float (&x)[S.rows][8], int64_t at, bool inside) const {
#pragma unroll
    for (int m = 0; m < S.rows; ++m)
      (m < p.m && inside ? load_vec<S.type, 8>(p.a, m * p.a_row + at) : Vec<S.type, 8>::zero())
          .unpack(x[m]);
  }
};

/// `unroll` accesses to each column from k on. kGuard: some may be beyond the end of K.
template <GemmTraits S, GemvConfig C, bool kGuard, class Rows>
__device__ __forceinline__ void gemv_batch(GemvSums<S, C>& sums, const GemmCall& p,
                                           const Rows& rows,
                                           const void* const (&columns)[C.columns], int64_t k) {
  using Eight = Vec<S.type, 8>;
  Eight w[C.unroll][C.columns];
#pragma unroll
  for (int u = 0; u < C.unroll; ++u)
#pragma unroll
    for (int c = 0; c < C.columns; ++c) {
      const int64_t at = k + u * kGemvStep;
      w[u][c] = !kGuard || at < p.k ? load_vec<S.type, 8, 16, Cache::kStream>(columns[c], at)
                                    : Eight::zero();
    }
#pragma unroll
  for (int u = 0; u < C.unroll; ++u) {
    const int64_t at = k + u * kGemvStep;
    float x[S.rows][8];
    rows.load(x, at, !kGuard || at < p.k);
#pragma unroll
    for (int c = 0; c < C.columns; ++c) {
      float b[8];
      w[u][c].unpack(b);
#pragma unroll
      for (int m = 0; m < S.rows; ++m)
#pragma unroll
        for (int i = 0; i < 8; ++i) sums[c][m][i % 2] = fmaf(x[m][i], b[i], sums[c][m][i % 2]);
    }
  }
}

/// A warp's columns of b from n0 on. Those beyond the last repeat the last one; nothing stores
/// them.
template <GemvConfig C, int kParts>
__device__ __forceinline__ void gemv_columns(const void* (&columns)[C.columns], const GemmCall& p,
                                             int64_t n0, int64_t all) {
#pragma unroll
  for (int c = 0; c < C.columns; ++c) {
    const int64_t n = (n0 + c < all ? n0 + c : all - kParts + c % kParts) / kParts;
    columns[c] = static_cast<const char*>(p.b[c % kParts]) + n * p.b_col * 2;
  }
}

/// A lane's sums over its warp's part of K.
template <GemmTraits S, GemvConfig C, class Rows>
__device__ __forceinline__ void gemv_walk(GemvTotals<S, C>& totals, const GemmCall& p,
                                          const Rows& rows, const void* const (&columns)[C.columns],
                                          int warp, int lane) {
  GemvSums<S, C> sums = {};
  constexpr int kBatch = kGemvStep * C.unroll, kBatches = kGemvChain / (4 * C.unroll);
  int64_t k = warp % C.split * kBatch;
  for (int batch = 1; k + kBatch <= p.k; k += C.split * kBatch, ++batch) {
    gemv_batch<S, C, false>(sums, p, rows, columns, k + lane * 8);
    if (batch % kBatches == 0) end_chains<S, C>(sums, totals);
  }
  if (k < p.k) gemv_batch<S, C, true>(sums, p, rows, columns, k + lane * 8);
  end_chains<S, C>(sums, totals);
}

template <GemmTraits S, GemvConfig C, typename Epilogue>
__global__ void __launch_bounds__(C.threads())
    gemm_gemv(const __grid_constant__ GemmParams<Epilogue> p) {
  constexpr int kParts = Epilogue::kParts, kOfWarp = C.columns * S.rows;
  static_assert(valid(C) && C.columns % kParts == 0 && S.b_by_depth);
  __shared__ float shared[C.warps][C.columns][S.rows];
  wait_for_dependencies();
  launch_dependents();
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t first = int64_t{blockIdx.x} * C.block_columns(),
                all = product_columns<kParts>(p.gemm);
  const int64_t n0 = first + warp / C.split * C.columns;
  const void* columns[C.columns];
  gemv_columns<C, kParts>(columns, p.gemm, n0, all);
  GemvTotals<S, C> totals = {};
  const GemvRows<S> rows{p.gemm};
  gemv_walk<S, C>(totals, p.gemm, rows, columns, warp, lane);
#pragma unroll
  for (int c = 0; c < C.columns; ++c)
#pragma unroll
    for (int m = 0; m < S.rows; ++m) {
      const float sum = warp_sum(totals[c][m]);
      if (lane == 0) shared[warp][c][m] = sum;
    }
  __syncthreads();
  constexpr int kEach = kOfWarp / kParts;  // results of a warp
  for (int e = static_cast<int>(threadIdx.x); e < C.warps / C.split * kEach; e += C.threads()) {
    const int group = e / kEach, c = e % kEach / S.rows * kParts, m = e % S.rows;
    const int64_t n = first + group * C.columns + c;
    if (m >= p.gemm.m || n >= all) continue;
    float total[kParts];
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      total[part] = shared[group * C.split][c + part][m];
#pragma unroll
      for (int s = 1; s < C.split; ++s) total[part] += shared[group * C.split + s][c + part][m];
    }
    finish_columns<Epilogue, kParts>(p, m, n, total);
  }
}

}  // namespace dlblas
