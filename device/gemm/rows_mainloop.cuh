// The few-row product (decoding): m ≤ 16; b streams from memory once, straight into the registers
// of the tensor-core instruction; only the final sums pass through shared memory.
// In: a [M, K] with contiguous rows, b [K, N] contiguous in either dimension; f16 or bf16; K (and
// N, where b is contiguous along it) a multiple of 8; rows 16-byte aligned; an epilogue. With two
// parts both b are contiguous along K, and their columns alternate. Out: the epilogue's.
// A product may take K in any order that a and b share, and columns in any order at all, so a
// thread can load 16 bytes at a time and use them as they come.
// Numerics: f32 sums, carried every S.span terms of a warp; the warps' parts of K added in order.
// Flow: [launch], of ops/gemm/matmul/cuda/matmul_rows_cuda.cpp for one.
// Read next: device/mma.cuh, epilogue.cuh.
#pragma once

#include "device/carried_sum.cuh"
#include "device/gemm/epilogue.cuh"
#include "device/mma.cuh"
#include "device/pdl.cuh"

namespace dlblas {

/// b contiguous along K. A tile is 32 deep: a thread holds eight neighbours along K, four for each
/// of two instructions, of row g of a (and g + 8) and of column 8t + g of b.
template <GemmTraits S, GemmRowsConfig C, int kParts>
struct RowsByDepth {
  static constexpr int kDepth = 32;
  static constexpr int kTiles = C.columns / 8;  // of 8 columns
  static constexpr int kWords = 4;
  using Eight = Vec<S.type, 8>;
  Eight x[2], w[kTiles];

  __device__ static __forceinline__ int depth_of(int q) { return q * 8; }
  __device__ static __forceinline__ int column_of(int tile, int j) { return tile * 8 + j; }

  __device__ __forceinline__ void load_b(const GemmCall& p, int64_t n0, int64_t k, int g) {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      const int64_t n = n0 + t * 8 + g;
      w[t] =
          k < p.k && n < product_columns<kParts>(p)
              ? load_vec<S.type, 8, 16, Cache::kStream>(p.b[g % kParts], n / kParts * p.b_col + k)
              : Eight::zero();
    }
  }

  __device__ __forceinline__ void multiply(float (&d)[kTiles][4]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t a[4] = {x[0].words[2 * half], x[1].words[2 * half], x[0].words[2 * half + 1],
                             x[1].words[2 * half + 1]};
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        mma_16x8x16<S.type == DType::kBF16>(d[t], a, w[t].words[2 * half],
                                            w[t].words[2 * half + 1]);
      }
    }
  }
};

/// b contiguous along N. A tile is 16 deep: a thread holds four neighbours of row g of a, and in
/// the same four rows of b the kTiles columns from kTiles·g on; column kTiles·j + t is column j of
/// tile t.
template <GemmTraits S, GemmRowsConfig C, int kParts>
struct RowsByColumn {
  static constexpr int kDepth = 16;
  static constexpr int kTiles = C.columns / 8;
  static constexpr int kWords = 2;
  static_assert(C.columns == 32 || C.columns == 64);
  static_assert(kParts == 1, "a thread loads neighbouring columns of one matrix");
  Vec<S.type, 4> x[2];
  Vec<S.type, kTiles> w[4];

  __device__ static __forceinline__ int depth_of(int q) { return q * 4; }
  __device__ static __forceinline__ int column_of(int tile, int j) { return j * kTiles + tile; }

  __device__ __forceinline__ void load_b(const GemmCall& p, int64_t n0, int64_t k, int g) {
    const int64_t n = n0 + g * kTiles;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      w[i] = k < p.k && n < p.n
                 ? load_vec<S.type, kTiles, 16, Cache::kStream>(p.b[0], (k + i) * p.b_row + n)
                 : Vec<S.type, kTiles>::zero();
    }
  }

  __device__ __forceinline__ void multiply(float (&d)[kTiles][4]) const {
    const uint32_t a[4] = {x[0].words[0], x[1].words[0], x[0].words[1], x[1].words[1]};
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      // Packs element t of two rows into one register.
      const uint32_t pick = t % 2 ? 0x7632 : 0x5410;
      mma_16x8x16<S.type == DType::kBF16>(d[t], a,
                                          __byte_perm(w[0].words[t / 2], w[1].words[t / 2], pick),
                                          __byte_perm(w[2].words[t / 2], w[3].words[t / 2], pick));
    }
  }
};

template <bool kByDepth, GemmTraits S, GemmRowsConfig C, int kParts>
struct RowsTileOf {
  using Type = RowsByColumn<S, C, kParts>;
};
template <GemmTraits S, GemmRowsConfig C, int kParts>
struct RowsTileOf<true, S, C, kParts> {
  using Type = RowsByDepth<S, C, kParts>;
};
template <GemmTraits S, GemmRowsConfig C, int kParts>
using RowsTile = typename RowsTileOf<S.b_by_depth, S, C, kParts>::Type;

/// Rows g and g + 8 of a at this thread's depth; missing rows are zero.
template <GemmTraits S, GemmRowsConfig C, int kParts>
__device__ __forceinline__ void load_a(RowsTile<S, C, kParts>& tile, const GemmCall& p, int64_t k,
                                       int g) {
  constexpr int kCount = 2 * RowsTile<S, C, kParts>::kWords;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    tile.x[i] = Vec<S.type, kCount>::zero();
    if (i * 8 < S.rows && i * 8 + g < p.m && k < p.k) {
      tile.x[i] = load_vec<S.type, kCount>(p.a, (i * 8 + g) * p.a_row + k);
    }
  }
}

/// The sum of element e over all warps. Shared memory holds the sums (the carried pairs where K is
/// summed in spans) as [warp][tile][register][lane].
template <GemmTraits S, GemmRowsConfig C, int kParts>
__device__ __forceinline__ float sum_of_warps(const void* shared, int e) {
  constexpr int kSums = RowsTile<S, C, kParts>::kTiles * 4 * 32;
  if constexpr (S.span > 0) {
    const auto* pairs = static_cast<const float2*>(shared);
    Carried sum = {0, 0};
#pragma unroll
    for (int warp = 0; warp < C.warps; ++warp) {
      const float2 pair = pairs[warp * kSums + e];
      sum = carry(carry(sum, pair.x), pair.y);
    }
    return carried_total(sum);
  } else {
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < C.warps; ++warp) {
      sum += static_cast<const float*>(shared)[warp * kSums + e];
    }
    return sum;
  }
}

/// Passes the warps' sums, added in warp order, to the epilogue; the parts of a column, registers r
/// and r + 1 of a lane, go together.
template <GemmTraits S, GemmRowsConfig C, typename Epilogue>
__device__ __forceinline__ void rows_store(const GemmParams<Epilogue>& p, const void* shared,
                                           int64_t n0) {
  constexpr int kParts = Epilogue::kParts;
  using Tile = RowsTile<S, C, kParts>;
  constexpr int kSums = Tile::kTiles * 4 * 32;
  for (int e = static_cast<int>(threadIdx.x); e < kSums / kParts; e += C.threads()) {
    const int first = kParts == 1 ? e : e / 32 * 64 + e % 32;
    const int lane = e % 32, r = first / 32 % 4;
    const int64_t m = lane / 4 + r / 2 * 8;
    const int64_t n = n0 + Tile::column_of(first / 128, lane % 4 * 2 + r % 2);
    if (m >= p.gemm.m || n >= product_columns<kParts>(p.gemm)) continue;
    float sums[kParts];
#pragma unroll
    for (int part = 0; part < kParts; ++part)
      sums[part] = sum_of_warps<S, C, kParts>(shared, first + part * 32);
    finish_columns<Epilogue, kParts>(p, m, n, sums);
  }
}

/// The products of one batch of tiles of K, from k0 on.
template <GemmTraits S, GemmRowsConfig C, int kParts>
__device__ __forceinline__ void rows_batch(float (&d)[RowsTile<S, C, kParts>::kTiles][4],
                                           const GemmCall& p, int64_t n0, int64_t k0) {
  using Tile = RowsTile<S, C, kParts>;
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, q = lane % 4;
  Tile tiles[C.unroll];
#pragma unroll
  for (int u = 0; u < C.unroll; ++u) {
    const int64_t k = k0 + u * Tile::kDepth + Tile::depth_of(q);
    tiles[u].load_b(p, n0, k, g);
    load_a<S, C, kParts>(tiles[u], p, k, g);
  }
#pragma unroll
  for (int u = 0; u < C.unroll; ++u) tiles[u].multiply(d);
}

template <GemmTraits S, GemmRowsConfig C, typename Epilogue>
__global__ void __launch_bounds__(C.threads())
    gemm_rows(const __grid_constant__ GemmParams<Epilogue> p) {
  constexpr int kParts = Epilogue::kParts;
  using Tile = RowsTile<S, C, kParts>;
  extern __shared__ __align__(16) float sums[];
  wait_for_dependencies();
  launch_dependents();
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t n0 = int64_t{blockIdx.x} * C.columns;
  constexpr int kBatch = Tile::kDepth * C.unroll;  // neighbouring warps read neighbouring batches
  constexpr int kOfWarp = Tile::kTiles * 4 * 32;
  float d[Tile::kTiles][4] = {};
  if constexpr (S.span > 0) {
    CarriedSums<Tile::kTiles * 4, 32> carried(sums + 2 * warp * kOfWarp, lane);
    static_assert(S.span % kBatch == 0);
    for (int64_t k0 = warp * kBatch; k0 < p.gemm.k;) {
      const int64_t next_span = k0 + C.warps * S.span;
      const int64_t stop = next_span < p.gemm.k ? next_span : p.gemm.k;
      for (; k0 < stop; k0 += C.warps * kBatch) rows_batch<S, C, kParts>(d, p.gemm, n0, k0);
      carried.add(&d[0][0]);
    }
  } else {
    for (int64_t k0 = warp * kBatch; k0 < p.gemm.k; k0 += C.warps * kBatch) {
      rows_batch<S, C, kParts>(d, p.gemm, n0, k0);
    }
#pragma unroll
    for (int r = 0; r < Tile::kTiles * 4; ++r)
      sums[warp * kOfWarp + r * 32 + lane] = d[r / 4][r % 4];
  }
  __syncthreads();
  rows_store<S, C, Epilogue>(p, sums, n0);
}

}  // namespace dlblas
