// What an epilogue of a matrix product is, what it receives, and how it stores.
// In: finished f32 sums of neighbouring columns of one row. Out: whatever the epilogue stores, only
// inside the matrix. The mainloops (mma, fma, rows) take the epilogue as a template parameter:
// another operator is another epilogue, and no mainloop changes.
//
//   struct Scaled {                                   out = row_scale[m] · col_scale[n] · sum
//     struct Params { … };                            plain values of one call; the host fills them
//     static constexpr int kParts = 1;                2: two products, combined (silu(a·b₀)·(a·b₁))
//     static constexpr bool kBranches = false;        its values branch: see mma_blocks
//     template <int N>
//     __device__ static void store(const Params&, const GemmAt&, const GemmSums<kParts>& sums);
//   };
//
// `store` gets columns at.n … at.n + N - 1 of row at.m; those below at.width exist, and the first
// always does. N is 8 (mma), 4 (fma) or 1 (rows), half of that with two parts (rows: 1), and at.n
// is a multiple of N.
// Read next: mma_mainloop.cuh, ops/gemm/matmul/cuda/matmul_epilogue.cuh (one with an activation).
#pragma once

#include "device/gemm/config.hpp"
#include "device/vec.cuh"

namespace dlblas {

/// An epilogue's position: row m, columns from n on, of `width`.
struct GemmAt {
  int64_t m, n, width;
};

/// Finished sums: sums(part, i) belongs to column i of a · b[part].
template <int kParts>
struct GemmSums {
  const float* from;  // the parts of a column lie side by side
  __device__ __forceinline__ float operator()(int part, int i) const {
    return from[i * kParts + part];
  }
};

/// Columns of all parts: column c of the product is column c / kParts of b[c % kParts].
template <int kParts>
__device__ __forceinline__ int64_t product_columns(const GemmCall& p) {
  static_assert(kParts == 1 || kParts == 2);
  return p.n * kParts;
}

/// Passes sums of N neighbouring columns of the product, from column n on, to the epilogue.
template <typename Epilogue, int N>
__device__ __forceinline__ void finish_columns(const GemmParams<Epilogue>& p, int64_t m, int64_t n,
                                               const float* sums) {
  constexpr int kParts = Epilogue::kParts;
  static_assert(N % kParts == 0);
  Epilogue::template store<N / kParts>(p.epilogue, GemmAt{m, n / kParts, p.gemm.n},
                                       GemmSums<kParts>{sums});
}

// ---- How epilogues store ----

template <GemmOutTraits T>
__device__ __forceinline__ void store_value(const GemmOut& out, int64_t m, int64_t n, float value) {
  constexpr int kAlign = T.aligned ? size_of(T.type) : 1;
  Vec<T.type, 1> v;
  v.pack({value});
  store_vec<T.type, 1, kAlign>(out.data, m * out.row + n * out.col, v);
}

/// Rounds and stores value(0) … value(N - 1), skipping columns that do not exist.
template <GemmOutTraits T, int N, typename Value>
__device__ __forceinline__ void store_values(const GemmOut& out, const GemmAt& at,
                                             const Value& value) {
  if constexpr (N == 1) {
    store_value<T>(out, at.m, at.n, value(0));
  } else {
    if (T.vector && at.n + N <= at.width) {
      float y[N];
#pragma unroll
      for (int i = 0; i < N; ++i) y[i] = value(i);
      Vec<T.type, N> v;
      v.pack(y);
      store_vec<T.type, N>(out.data, at.m * out.row + at.n, v);
      return;
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (at.n + i < at.width) store_value<T>(out, at.m, at.n + i, value(i));
    }
  }
}

// ---- Sums of parts of K ----

/// Where part `part` of K stores its sum of (m, n). Rows are padded to eight columns, which keeps
/// them 16-byte aligned.
template <int kParts>
__device__ __forceinline__ int64_t partial_offset(const GemmCall& p, int64_t part, int64_t m,
                                                  int64_t n) {
  return (part * p.m + m) * ((product_columns<kParts>(p) + 7) / 8 * 8) + n;
}

template <int kParts>
__device__ __forceinline__ void store_partial(const GemmCall& p, int64_t part, int64_t m, int64_t n,
                                              const float* sums) {
  Vec<DType::kF32, 8> v;
#pragma unroll
  for (int i = 0; i < 8; ++i) v.words[i] = bits_of_float(sums[i]);
  store_vec<DType::kF32, 8>(p.partial, partial_offset<kParts>(p, part, m, n), v);
}

template <int kParts>
__device__ __forceinline__ void add_partial(const GemmCall& p, int64_t part, int64_t m, int64_t n,
                                            float (&sums)[8]) {
  float y[8];
  load_vec<DType::kF32, 8>(p.partial, partial_offset<kParts>(p, part, m, n)).unpack(y);
#pragma unroll
  for (int i = 0; i < 8; ++i) sums[i] += y[i];
}

}  // namespace dlblas
