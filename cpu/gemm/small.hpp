// Small matrices of a batch, whole in the first caches: no blocks, and no part of a call that is
// repeated for each. In: one matrix product with K within a chain. Out: what the epilogue stores.
// Numerics: one chain of multiply-adds, which is what the blocked form sums, bit for bit.
// Flow: [launch], called by ops/gemm/batched/batched_cpu.cpp.  Read next: epilogue.hpp, pack.hpp.
#pragma once

#include "cpu/gemm/loops.hpp"
#include "cpu/gemm/pack.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

/// Both factors as f32: rows of b are contiguous.
struct SmallWork {
  const float* a;
  int64_t a_row, a_col;
  const float* b;
  int64_t b_row, k;
};

/// R rows from i on by V vectors of columns from j on; sums are `row` apart.
template <int R, int V>
DLBLAS_INLINE void small_tile(const SmallWork& w, int64_t i, int64_t j, float* to, int64_t row) {
  Vec sum[R][V];
  DLBLAS_UNROLL
  for (int r = 0; r < R; ++r) {
    DLBLAS_UNROLL
    for (int v = 0; v < V; ++v) sum[r][v] = zero();
  }
  const float *a = w.a + i * w.a_row, *b = w.b + j;
  for (int64_t k = 0; k < w.k; ++k, a += w.a_col, b += w.b_row) {
    Vec columns[V];
    DLBLAS_UNROLL
    for (int v = 0; v < V; ++v) columns[v] = load<DType::kF32>(b + v * kWidth);
    DLBLAS_UNROLL
    for (int r = 0; r < R; ++r) {
      float element;  // by memcpy: a may be aligned to nothing
      __builtin_memcpy(&element, a + r * w.a_row, sizeof element);
      const Vec x = broadcast(element);
      DLBLAS_UNROLL
      for (int v = 0; v < V; ++v) sum[r][v] = fma(x, columns[v], sum[r][v]);
    }
  }
  DLBLAS_UNROLL
  for (int r = 0; r < R; ++r) {
    DLBLAS_UNROLL
    for (int v = 0; v < V; ++v) store<DType::kF32>(to + r * row + v * kWidth, sum[r][v]);
  }
}

/// R rows, over `vectors` of columns.
template <int R>
DLBLAS_ONCE void small_rows(const SmallWork& w, int64_t i, int64_t vectors, float* to,
                            int64_t row) {
  int64_t v = 0;
  for (; v + 2 <= vectors; v += 2) small_tile<R, 2>(w, i, v * kWidth, to + v * kWidth, row);
  if (v < vectors) small_tile<R, 1>(w, i, v * kWidth, to + v * kWidth, row);
}

constexpr int kSmallRows = kWidth == 16 ? 8 : 4;  // what the registers hold

void multiply_small(const GemmJob& p, float* room) {
  const int64_t vectors = (p.n + kWidth - 1) / kWidth, width = vectors * kWidth;
  SmallWork w = {static_cast<const float*>(p.a.data),    p.a.row,    p.a.col,
                 static_cast<const float*>(p.b[0].data), p.b[0].row, p.k};
  if (p.b[0].type != DType::kF32 || p.b[0].col != 1 || width != p.n) {
    pack_panels(p.b[0].type, {p.b[0].data, p.b[0].col, p.b[0].row}, p.n, p.k,
                static_cast<int>(width), room);
    w.b = room, w.b_row = width;
    room += width * p.k + kPackSlack;
  }
  if (p.a.type != DType::kF32) {
    const int64_t depth = (p.k + kWidth - 1) / kWidth * kWidth;
    pack_panels(p.a.type, {p.a.data, p.a.col, p.a.row}, p.k, p.m, static_cast<int>(depth), room);
    w.a = room, w.a_row = depth, w.a_col = 1;
  }
  const GemmEpilogue& epilogue = *p.epilogue;
  const GemmMatrix* const plain =
      width == p.n && epilogue.plain ? epilogue.plain(p.params) : nullptr;
  float sums[kSmallRows * kSmallColumns];
  for (int64_t i = 0; i < p.m;) {
    const int64_t left = p.m - i;
    const int rows = left >= kSmallRows ? kSmallRows : left >= 4 ? 4 : left >= 2 ? 2 : 1;
    float* const to = plain ? reinterpret_cast<float*>(address(*plain, i, 0)) : sums;
    const int64_t row = plain ? plain->row : width;
    if (rows == kSmallRows) {
      small_rows<kSmallRows>(w, i, vectors, to, row);
    } else if (rows == 4) {
      small_rows<4>(w, i, vectors, to, row);
    } else if (rows == 2) {
      small_rows<2>(w, i, vectors, to, row);
    } else {
      small_rows<1>(w, i, vectors, to, row);
    }
    if (!plain)
      epilogue.store_tile(p.params, GemmBlock{i, i + rows, 0, p.n, 0, p.k},
                          {rows, static_cast<int32_t>(width)}, sums);
    i += rows;
  }
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
