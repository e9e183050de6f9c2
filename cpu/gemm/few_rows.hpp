// The few-row product of one instruction set: b is read once, in place, as it lies. Bound by
// memory: what counts is the number of sequential streams in flight.
// In: columns [j0, j1) of b, a as f32 rows. Out: what the epilogue stores of those columns.
// Numerics: row-major b accumulates as the blocked form does, bit for bit; a transposed b sums
// kWidth lanes per column, in chains whose sums are added with their errors kept, and adds the
// lanes last, in one fixed order.
// Flow: [launch], called by cpu/gemm/run.cpp.  Read next: epilogue.hpp.
#pragma once

#include "cpu/gemm/carried_sum.hpp"
#include "cpu/gemm/epilogue.hpp"

namespace dlblas::DLBLAS_ISA {
namespace {

/// A group of rows at work on one chunk of columns.
struct RowWork {
  const GemmJob& p;
  const GemmMatrix& b;  // the part that is read
  int64_t j0, j1;       // the chunk
  const float* rows;    // of a, k apart; for streams side by side: [k][rows of the group]
  float* sums;          // of spans, and the results: row r at sums + r · ld
  int64_t ld;
  int64_t plane;  // floats to the sums of chains, then of runs, then all spans' total, its error
  int64_t ahead;  // bytes
};

/// to = from, or to += from: a group's sums over the chunk.
DLBLAS_OUTLINE void move_sums(const RowWork& w, int rows, const float* from, float* to, bool adds) {
  const int64_t n = w.j1 - w.j0, ld = w.ld;
  for (int r = 0; r < rows; ++r, from += ld, to += ld) {
    if (adds) {
      for (int64_t v = 0; v < n; v += kWidth)
        store<DType::kF32>(to + v, add(load<DType::kF32>(to + v), load<DType::kF32>(from + v)));
    } else {
      for (int64_t v = 0; v < n; v += kWidth)
        store<DType::kF32>(to + v, load<DType::kF32>(from + v));
    }
  }
}

/// A span ends: its sums join the total of those before. At the last the whole sums take its place.
DLBLAS_OUTLINE void end_span(const RowWork& w, int rows, bool first, bool last) {
  for (int r = 0; r < rows; ++r) {
    for (int64_t v = 0; v < w.j1 - w.j0; v += kWidth) {
      float* const span = w.sums + r * w.ld + v;
      float *const total_at = span + 3 * w.plane, *const error_at = span + 4 * w.plane;
      Vec total = zero(), error = zero();
      if (!first) total = load<DType::kF32>(total_at), error = load<DType::kF32>(error_at);
      add_exactly(total, error, load<DType::kF32>(span));
      store<DType::kF32>(total_at, total);
      store<DType::kF32>(error_at, error);
      if (last) store<DType::kF32>(span, total_of(total, error));
    }
  }
}

/// The sums of a chain, over depths [begin, end), meet those before them.
void end_chain(const RowWork& w, int rows, int64_t begin, int64_t end) {
  const GemmSumOrder& size = w.p.sums;
  const bool last = end == w.p.k;
  float *from = w.sums + w.plane, *const run = from + w.plane;
  if (size.run != size.chain) {
    move_sums(w, rows, from, run, begin % size.run != 0);
    if (!last && end % size.run != 0) return;
    from = run;
  }
  move_sums(w, rows, from, w.sums, begin / size.run * size.run % size.span != 0);
  if (w.p.k > size.span && (last || end % size.span == 0))
    end_span(w, rows, begin < size.span, last);
}

/// U rows of b at depth k, over the chunk: every vector of b feeds R partial sums held in L1. With
/// kBegins they are the first of a chain.
template <DType E, int R, int U, bool kBegins>
DLBLAS_OUTLINE void row_streams(const RowWork& w, int64_t k) {
  const char* b = address(w.b, k, w.j0);
  // Of a copy the compiler knows that no store below changes it: few enough stay in registers.
  constexpr bool kCopies = U * R <= 32;
  float copy[kCopies ? U * R : 1];
  if constexpr (kCopies) __builtin_memcpy(copy, w.rows + k * R, sizeof copy);
  const float* const x = kCopies ? copy : w.rows + k * R;
  float* const chains = w.sums + w.plane;
  const int64_t step = w.b.row * kElementBytes<E>;
  const int64_t n = w.j1 - w.j0, ld = w.ld, ahead = w.ahead;
  for (int64_t v = 0; v < n; v += kWidth) {
    Vec sum[R];
    for (int r = 0; r < R; ++r) sum[r] = kBegins ? zero() : load<DType::kF32>(chains + r * ld + v);
    for (int u = 0; u < U; ++u) {
      const char* from = at<E>(b + u * step, v);
      if (ahead) prefetch(from + ahead);
      const Vec column = load_first<E>(from, n - v);
      for (int r = 0; r < R; ++r) sum[r] = fma(broadcast(x[u * R + r]), column, sum[r]);
    }
    for (int r = 0; r < R; ++r) store<DType::kF32>(chains + r * ld + v, sum[r]);
  }
}

template <DType E, int R, int U>
void row_major(const RowWork& w) {
  if (w.p.k == 0) {
    for (int64_t v = 0; v < R * w.ld; v += kWidth) store<DType::kF32>(w.sums + v, zero());
  }
  for (int64_t k = 0; k < w.p.k;) {
    const int64_t begin = k, end = smaller(w.p.k, k + w.p.sums.chain);
    if (k + U <= end) {
      row_streams<E, R, U, true>(w, k);
      k += U;
    } else {
      row_streams<E, R, 1, true>(w, k++);
    }
    for (; k + U <= end; k += U) row_streams<E, R, U, false>(w, k);
    for (; k < end; ++k) row_streams<E, R, 1, false>(w, k);
    end_chain(w, R, begin, end);
  }
}

/// One chain of C columns of a transposed b, dot products over depths [k, end): C · R vectors of
/// partial sums.
template <DType E, int R, int C>
DLBLAS_INLINE void dot_chain(const RowWork& w, const char* b, int64_t k, int64_t end,
                             Vec (&sum)[R][C]) {
  const int64_t step = w.b.col * kElementBytes<E>;
  const int64_t depth = w.p.k;
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) sum[r][c] = zero();
  }
  for (; k < end; k += kWidth) {
    Vec row[R];
    for (int r = 0; r < R; ++r) row[r] = load_first<DType::kF32>(w.rows + r * depth + k, depth - k);
    for (int c = 0; c < C; ++c) {
      const char* from = at<E>(b + c * step, k);
      if (w.ahead) prefetch(from + w.ahead);
      const Vec column = load_first<E>(from, depth - k);
      for (int r = 0; r < R; ++r) sum[r][c] = fma(row[r], column, sum[r][c]);
    }
  }
}

/// C columns of a transposed b, in more than one chain.
template <DType E, int R, int C>
DLBLAS_OUTLINE void row_chains(const RowWork& w, int64_t j, int64_t chain) {
  Vec total[R][C], error[R][C];  // in L1
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) total[r][c] = error[r][c] = zero();
  }
  for (int64_t k = 0; k < w.p.k; k += chain) {
    Vec sum[R][C];
    dot_chain<E, R, C>(w, address(w.b, 0, j), k, smaller(w.p.k, k + chain), sum);
    for (int r = 0; r < R; ++r) {
      for (int c = 0; c < C; ++c) add_exactly(total[r][c], error[r][c], sum[r][c]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c)
      w.sums[r * w.ld + (j - w.j0) + c] = reduce_add(total_of(total[r][c], error[r][c]));
  }
}

/// C columns of a transposed b.
template <DType E, int R, int C>
void row_dots(const RowWork& w, int64_t j) {
  // One column is as good as a library's dot product, which has short chains; many need not be.
  const int64_t chain = (w.p.n == 1 ? 8 : 16 * kWidth) * kWidth;
  if (w.p.k > chain) return row_chains<E, R, C>(w, j, chain);
  Vec sum[R][C];
  dot_chain<E, R, C>(w, address(w.b, 0, j), 0, w.p.k, sum);
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) w.sums[r * w.ld + (j - w.j0) + c] = reduce_add(sum[r][c]);
  }
}

template <DType E, int R, int U>
void row_transposed(const RowWork& w) {
  constexpr int kColumns = U * R > 16 ? 16 / R : U;  // more sums than registers would spill
  int64_t j = w.j0;
  for (; j + kColumns <= w.j1; j += kColumns) row_dots<E, R, kColumns>(w, j);
  for (; j < w.j1; ++j) row_dots<E, R, 1>(w, j);
}

template <DType E, int R, int U>
void row_chunk(const RowWork& w, bool dots) {
  if (dots) return row_transposed<E, R, U>(w);
  row_major<E, R, U>(w);
}

template <DType E, int R>
void row_unrolled(const RowWork& w, const CpuGemmRowConfig& c) {
  if (c.unroll_k == 2) return row_chunk<E, R, 2>(w, c.dots);
  if (c.unroll_k == 4) return row_chunk<E, R, 4>(w, c.dots);
  row_chunk<E, R, 8>(w, c.dots);
}

/// Rows of a group: the smallest of 1, 2, 4, 8 that holds them; the surplus rows of a are zero.
template <DType E>
void row_group(const RowWork& w, int64_t rows, const CpuGemmRowConfig& c) {
  if (rows <= 1) return row_unrolled<E, 1>(w, c);
  if (rows <= 2) return row_unrolled<E, 2>(w, c);
  if (rows <= 4) return row_unrolled<E, 4>(w, c);
  row_unrolled<E, kMaxRowGroup>(w, c);
}

template <typename Epilogue>
void row(const GemmJob& p, const CpuGemmRowConfig& c, int64_t j0, int64_t j1, const float* rows,
         float* sums) {
  constexpr int kParts = Epilogue::kParts;
  const auto& params = *static_cast<const typename Epilogue::Params*>(p.epilogue);
  const int64_t plane = kMaxRowGroup * c.block_n;
  for (int64_t i = 0; i < p.m; i += kMaxRowGroup) {
    const int64_t group = smaller(kMaxRowGroup, p.m - i);
    for (int64_t j = j0; j < j1; j += c.block_n) {
      const int64_t end = smaller(j1, j + c.block_n);
      for (int part = 0; part < kParts; ++part) {
        const GemmMatrix& b = p.b[part];
        const RowWork w{
            p,         b,     j,         end, rows + i * p.k, sums + part * kRowPlanes * plane,
            c.block_n, plane, c.prefetch};
        if (b.type == DType::kF32) row_group<DType::kF32>(w, group, c);
        if (b.type == DType::kF16) row_group<DType::kF16>(w, group, c);
        if (b.type == DType::kBF16) row_group<DType::kBF16>(w, group, c);
      }
      for (int64_t r = 0; r < group; ++r) {
        const float* of_row[kParts];
        for (int part = 0; part < kParts; ++part)
          of_row[part] = sums + part * kRowPlanes * plane + r * c.block_n;
        Epilogue::store(params, i + r, j, end - j, of_row);
      }
    }
  }
}

void pack_rows(const GemmJob& p, const CpuGemmRowConfig& c, float* rows) {
  int padded = 1;
  while (padded < p.m) padded *= 2;
  if (!c.dots && p.m > 1)
    return pack(p.a.type, {address(p.a, 0, 0), p.a.row, p.a.col}, p.m, p.k, padded, rows);
  // A row of a, taken as lanes of one depth, comes out as contiguous panels; what its last panel
  // spills is overwritten by the next row, or cleared below.
  for (int64_t i = 0; i < p.m; ++i) {
    pack(p.a.type, {address(p.a, i, 0), p.a.col, 0}, p.k, 1, kWidth, rows + i * p.k);
  }
  for (int64_t v = p.m * p.k; v < padded * p.k; ++v) rows[v] = 0.0f;
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
