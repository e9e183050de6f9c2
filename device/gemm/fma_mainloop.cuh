// The product for all inputs: f32 (IEEE multiply-adds, no TF32), f16 and bf16, any strides of any
// sign, any alignment. Each thread accumulates thread_m × thread_n sums in registers.
// In: a [M, K], b [K, N]; an epilogue. With two parts the columns of both b alternate in a tile.
// Out: the epilogue's.
// Numerics: every sum is a chain of multiply-adds in the order of k (with short spans, a chain of
// sums of four), carried every S.span terms, so the bits do not depend on the configuration.
//
//   registers ← global (tile t + 1)     while     sums += shared (tile t)
//
// Flow: [launch], of ops/gemm/matmul/cuda/matmul_fma_cuda.cpp for one.  Read next: epilogue.cuh.
#pragma once

#include "device/carried_sum.cuh"
#include "device/gemm/epilogue.cuh"
#include "device/gemm/source_rows.cuh"
#include "device/pdl.cuh"

namespace dlblas {

/// How a block reads one operand's tiles, as [depth][outer] floats in shared memory ("outer" is M
/// or N). Neighbouring threads read neighbours along the contiguous dimension.
/// With kParts matrices of the same strides, outer c is c / kParts of matrix c % kParts.
template <GemmTraits S, int kOuter, int kDepth, bool kByDepth, int kThreads, int kParts>
struct FmaTile {
  static constexpr int kPitch = kOuter + 4;
  static constexpr int kFast = kByDepth ? kDepth : kOuter;  // length of the contiguous dimension
  static constexpr int kCount = kOuter * kDepth / kThreads;
  static constexpr int kStep = kThreads / kFast;  // between a thread's elements, other dimension
  static_assert(kThreads % kFast == 0 && kOuter * kDepth % kThreads == 0);
  static_assert(!kByDepth || kStep % kParts == 0, "a thread reads one of the matrices");

  const void* base;
  int64_t at, step, next_tile;  // in elements
  int outer, depth;             // of this thread's first element

  /// `first`: a multiple of kParts.
  /// `odd`: the second of two matrices.
  __device__ __forceinline__ FmaTile(const void* matrix, const void* odd, int64_t first,
                                     int64_t outer_stride, int64_t depth_stride)
      : base(matrix) {
    const int fast = static_cast<int>(threadIdx.x) % kFast;
    const int slow = static_cast<int>(threadIdx.x) / kFast;
    outer = kByDepth ? slow : fast;
    depth = kByDepth ? fast : slow;
    at = first * outer_stride + outer * outer_stride + depth * depth_stride;
    step = kStep * (kByDepth ? outer_stride : depth_stride);
    if constexpr (kParts == 2) {
      if (outer % 2 != 0) base = odd;
      at = (first + outer) / 2 * outer_stride + depth * depth_stride;
      if constexpr (kByDepth) step = kStep / 2 * outer_stride;
    }
    next_tile = kDepth * depth_stride;
  }

  /// Loads the next tile; beyond the matrix it is zero. `*_left`: of the matrix, from the tile on.
  /// Gathered rows were constructed without a stride from row to row.
  template <typename Rows = RowsInOrder>
  __device__ __forceinline__ void load(float (&v)[kCount], int64_t outer_left, int64_t depth_left,
                                       const Rows& rows = Rows()) {
    constexpr int kAlign = S.aligned ? size_of(S.type) : 1;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int o = kByDepth ? outer + i * kStep : outer, d = kByDepth ? depth : depth + i * kStep;
      v[i] = 0;
      int64_t row = 0;
      bool there = o < outer_left;
      if constexpr (Rows::kGathered) row = rows.offsets[o], there = row != kNoRow;
      if (there && d < depth_left) {
        float one[1];
        load_vec<S.type, 1, kAlign>(base, row + at + i * step).unpack(one);
        v[i] = one[0];
      }
    }
    at += next_tile;
  }

  __device__ __forceinline__ void store(float* shared, const float (&v)[kCount]) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int o = kByDepth ? outer + i * kStep : outer, d = kByDepth ? depth : depth + i * kStep;
      shared[d * kPitch + o] = v[i];
    }
  }
};

template <GemmTraits S, GemmFmaConfig C, int kParts>
struct FmaShape {
  using TileA = FmaTile<S, C.block_m, C.block_k, S.a_by_depth, C.threads(), 1>;
  using TileB = FmaTile<S, C.block_n, C.block_k, S.b_by_depth, C.threads(), kParts>;
  static constexpr int kFloatsA = C.block_k * TileA::kPitch;
  static constexpr int kFloats = kFloatsA + C.block_k * TileB::kPitch;  // of one buffer
  static constexpr int kThreadsN = C.block_n / C.thread_n;
  using Sums = float[C.thread_m][C.thread_n];
  using Carry = CarriedSums<C.thread_m * C.thread_n, C.threads()>;
  static_assert(S.span % C.block_k == 0);

  /// A thread's rows (and columns) are groups of four, spread over the block, so that a warp reads
  /// neighbouring 16-byte chunks.
  __device__ static __forceinline__ int row_of(int i) {
    const int thread = static_cast<int>(threadIdx.x) / kThreadsN;
    return i / 4 * (C.block_m / C.thread_m * 4) + thread * 4 + i % 4;
  }
  __device__ static __forceinline__ int col_of(int j) {
    const int thread = static_cast<int>(threadIdx.x) % kThreadsN;
    return j / 4 * (kThreadsN * 4) + thread * 4 + j % 4;
  }
};

/// d += the products of kDepths depths of the tile, from `first` on.
template <GemmTraits S, GemmFmaConfig C, int kParts, int kDepths>
__device__ __forceinline__ void fma_depths(typename FmaShape<S, C, kParts>::Sums& d,
                                           const float* shared, int first) {
  using Shape = FmaShape<S, C, kParts>;
#pragma unroll
  for (int k = first; k < first + kDepths; ++k) {
    float a[C.thread_m], b[C.thread_n];
    const float* row_a = shared + k * Shape::TileA::kPitch;
    const float* row_b = shared + Shape::kFloatsA + k * Shape::TileB::kPitch;
#pragma unroll
    for (int i = 0; i < C.thread_m; i += 4) {
      const auto v = *reinterpret_cast<const float4*>(row_a + Shape::row_of(i));
      a[i] = v.x, a[i + 1] = v.y, a[i + 2] = v.z, a[i + 3] = v.w;
    }
#pragma unroll
    for (int j = 0; j < C.thread_n; j += 4) {
      const auto v = *reinterpret_cast<const float4*>(row_b + Shape::col_of(j));
      b[j] = v.x, b[j + 1] = v.y, b[j + 2] = v.z, b[j + 3] = v.w;
    }
#pragma unroll
    for (int i = 0; i < C.thread_m; ++i) {
#pragma unroll
      for (int j = 0; j < C.thread_n; ++j) d[i][j] = fmaf(a[i], b[j], d[i][j]);
    }
  }
}

/// d += the products of the tile; with short spans, in sums of four.
template <GemmTraits S, GemmFmaConfig C, int kParts>
__device__ __forceinline__ void fma_tile(typename FmaShape<S, C, kParts>::Sums& d,
                                         const float* shared) {
  if constexpr (S.span == 0 || S.span > kShortFmaSpan) {
    fma_depths<S, C, kParts, C.block_k>(d, shared, 0);
  } else {
#pragma unroll
    for (int first = 0; first < C.block_k; first += 4) {
      typename FmaShape<S, C, kParts>::Sums four = {};
      fma_depths<S, C, kParts, 4>(four, shared, first);
#pragma unroll
      for (int i = 0; i < C.thread_m; ++i) {
#pragma unroll
        for (int j = 0; j < C.thread_n; ++j) d[i][j] += four[i][j];
      }
    }
  }
}

/// Calls `after_span()` after each span's multiply-adds. Gathered `rows` are those of the tile; the
/// caller's barrier has published their table.
template <GemmTraits S, GemmFmaConfig C, int kParts, typename AfterSpan,
          typename Rows = RowsInOrder>
__device__ __forceinline__ void fma_mainloop(typename FmaShape<S, C, kParts>::Sums& d,
                                             float* shared, const GemmCall& p, int64_t m0,
                                             int64_t n0, const AfterSpan& after_span,
                                             const Rows& rows = Rows()) {
  using Shape = FmaShape<S, C, kParts>;
  typename Shape::TileA a(p.a, nullptr, m0, Rows::kGathered ? 0 : p.a_row, p.a_col);
  typename Shape::TileB b(p.b[0], p.b[1], n0, p.b_col, p.b_row);
  float next_a[Shape::TileA::kCount], next_b[Shape::TileB::kCount];
  float* buffer = shared;
  float* other = shared + Shape::kFloats;
  a.load(next_a, p.m - m0, p.k, rows);
  b.load(next_b, product_columns<kParts>(p) - n0, p.k);
  const auto multiply_tile = [&](int64_t left) {
    a.store(buffer, next_a);
    b.store(buffer + Shape::kFloatsA, next_b);
    __syncthreads();  // one per tile: the buffer before this one is no longer read
    a.load(next_a, p.m - m0, left - C.block_k, rows);
    b.load(next_b, product_columns<kParts>(p) - n0, left - C.block_k);
    fma_tile<S, C, kParts>(d, buffer);
    float* const full = buffer;
    buffer = other, other = full;
  };
  for (int64_t left = p.k; left > 0;) {
    const int64_t stop = S.span > 0 && left > S.span ? left - S.span : 0;
    for (; left > stop; left -= C.block_k) multiply_tile(left);
    after_span();
  }
}

/// Passes a thread's sums to the epilogue through its own part of shared memory, as many rows at a
/// time as fit: a loop over registers would be unrolled, and 64 copies of an epilogue take half a
/// second to compile.
template <GemmTraits S, GemmFmaConfig C, typename Epilogue>
__device__ __forceinline__ void fma_store(const typename FmaShape<S, C, Epilogue::kParts>::Sums& d,
                                          float* shared, const GemmParams<Epilogue>& p, int64_t m0,
                                          int64_t n0) {
  constexpr int kParts = Epilogue::kParts;
  using Shape = FmaShape<S, C, kParts>;
  constexpr int kFit = 2 * Shape::kFloats / (C.threads() * C.thread_n);
  constexpr int kRows = kFit >= C.thread_m ? C.thread_m : kFit >= 4 ? 4 : kFit >= 2 ? 2 : 1;
  constexpr int kFours = C.thread_n / 4;
  static_assert(kFit >= 1);
  float4* const mine = reinterpret_cast<float4*>(shared) + threadIdx.x;
  __syncthreads();  // all reads of a tile are done
#pragma unroll
  for (int first = 0; first < C.thread_m; first += kRows) {
#pragma unroll
    for (int e = 0; e < kRows * kFours; ++e) {
      const float* s = d[first + e / kFours] + e % kFours * 4;
      mine[e * C.threads()] = make_float4(s[0], s[1], s[2], s[3]);
    }
#pragma unroll 1
    for (int e = 0; e < kRows * kFours; ++e) {
      const int64_t m = m0 + Shape::row_of(first + e / kFours);
      const int64_t n = n0 + Shape::col_of(e % kFours * 4);
      const float4 v = mine[e * C.threads()];
      const float sums[4] = {v.x, v.y, v.z, v.w};
      if (m < p.gemm.m && n < product_columns<kParts>(p.gemm))
        finish_columns<Epilogue, 4>(p, m, n, sums);
    }
  }
}

template <GemmTraits S, GemmFmaConfig C, typename Epilogue>
__global__ void __launch_bounds__(C.threads())
    gemm_fma(const __grid_constant__ GemmParams<Epilogue> p) {
  constexpr int kParts = Epilogue::kParts;
  using Shape = FmaShape<S, C, kParts>;
  extern __shared__ __align__(16) float shared[];
  wait_for_dependencies();
  launch_dependents();
  const auto blocks_n =
      static_cast<uint32_t>((product_columns<kParts>(p.gemm) + C.block_n - 1) / C.block_n);
  const int64_t m0 = int64_t{blockIdx.x / blocks_n} * C.block_m;
  const int64_t n0 = int64_t{blockIdx.x % blocks_n} * C.block_n;
  typename Shape::Sums d = {};
  if constexpr (S.span > 0) {
    typename Shape::Carry carried(shared + C.buffer_bytes() / 4, static_cast<int>(threadIdx.x));
    fma_mainloop<S, C, kParts>(d, shared, p.gemm, m0, n0, [&] { carried.add(&d[0][0]); });
    carried.finish(&d[0][0]);
  } else {
    fma_mainloop<S, C, kParts>(d, shared, p.gemm, m0, n0, [] {});
  }
  fma_store<S, C, Epilogue>(d, shared, p, m0, n0);
}

}  // namespace dlblas
