// The few-row product of one instruction set: b is read once, in place, in its own layout.
// Memory-bound: the number of sequential streams in flight decides the speed.
// In: columns [j0, j1) of b, a as f32 rows. Out: what the epilogue stores of those columns.
// Numerics: row-major b accumulates like the blocked form, bit for bit; a transposed b sums kWidth
// lanes per column, in chains whose sums are added with their errors kept, and adds the lanes last,
// in one fixed order.
// Flow: [launch], called by cpu/gemm/run.cpp.  Read next: epilogue.hpp.
#pragma once

#include "cpu/gemm/dot_sums.hpp"
#include "cpu/gemm/epilogue.hpp"

namespace dlblas::DLBLAS_ISA {
namespace {

/// The work on a group of rows and one chunk of columns.
struct RowWork {
  const GemmJob& p;
  const GemmMatrix& b;  // the part that is read
  int64_t j0, j1;       // the chunk
  const float* rows;    // of a, k apart; for streams side by side: [k][rows of the group]
  float* sums;          // of spans, and the results: row r at sums + r · ld
  int64_t ld;
  int64_t plane;  // floats to the sums of chains, then of runs, then all spans' total, its error
  int64_t ahead;  // bytes; negative: the rows of b that come next
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

/// Ends a span: adds its sums to the earlier spans' total, which replaces them at the last span.
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

/// Adds the sums of a chain, over depths [begin, end), to those before them.
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

/// Vectors of b per access: two for 16-bit types, which saves bf16 a permutation, since it is split
/// into even and odd columns; one where more sums would spill.
template <DType E, int R>
constexpr int kVectors = E != DType::kF32 && (kWidth == 16 || R <= 4) ? 2 : 1;
template <DType E, int R>
constexpr int kAccess = kVectors<E, R>* kWidth;

template <DType E, int kCount>
DLBLAS_INLINE void load_vectors(const void* p, Vec (&v)[kCount]) {
  if constexpr (kCount == 2) {
    const Pair both = load2<E, E>(p);
    v[0] = both.a, v[1] = both.b;
  } else {
    v[0] = load<E>(p);
  }
}

/// A chain over depths [begin, end) for the columns from v on, fewer than an access.
template <DType E>
DLBLAS_OUTLINE void last_streams(const RowWork& w, int64_t begin, int64_t end, int rows,
                                 int64_t v) {
  const int64_t step = w.b.row * kElementBytes<E>;
  for (; v < w.j1 - w.j0; v += kWidth) {
    for (int r = 0; r < rows; ++r) {
      const char* from = address(w.b, begin, w.j0 + v);
      Vec sum = zero();
      for (int64_t k = begin; k < end; ++k, from += step)
        sum = fma(broadcast(w.rows[k * rows + r]), load_first<E>(from, w.j1 - w.j0 - v), sum);
      store<DType::kF32>(w.sums + w.plane + r * w.ld + v, sum);
    }
  }
}

/// U rows of b from depth k on, over the chunk: every vector of b feeds R partial sums held in L1.
/// `begins`: these rows are the first of a chain.
template <DType E, int R, int U>
DLBLAS_OUTLINE void row_streams(const RowWork& w, int64_t k, bool begins) {
  constexpr int kCount = kVectors<E, R>;
  const char* b = address(w.b, k, w.j0);
  // The compiler knows that no store below changes a copy: a small one stays in registers.
  constexpr bool kCopies = U * R <= 32;
  float copy[kCopies ? U * R : 1];
  if constexpr (kCopies) __builtin_memcpy(copy, w.rows + k * R, sizeof copy);
  const float* const x = kCopies ? copy : w.rows + k * R;
  float* const chains = w.sums + w.plane;
  // A chain begins with zeros, always the same ones.
  alignas(64) static constexpr float kZeros[kAccess<E, R>] = {};
  const float* const before = begins ? kZeros : chains;
  const int64_t old_ld = begins ? 0 : w.ld, old_columns = begins ? 0 : -1;
  const int64_t step = w.b.row * kElementBytes<E>;
  const int64_t n = w.j1 - w.j0, ld = w.ld, ahead = w.ahead < 0 ? U * step : w.ahead;
  for (int64_t v = 0; v + kAccess<E, R> <= n; v += kAccess<E, R>) {
    Vec sum[R][kCount];
    for (int r = 0; r < R; ++r)
      load_vectors<DType::kF32>(before + r * old_ld + (v & old_columns), sum[r]);
    for (int u = 0; u < U; ++u) {
      const char* from = at<E>(b + u * step, v);
      for (int line = 0; ahead && line < kCount * kVectorBytes<E>; line += 64)
        prefetch(from + ahead + line);
      Vec columns[kCount];
      load_vectors<E>(from, columns);
      for (int r = 0; r < R; ++r) {
        for (int i = 0; i < kCount; ++i)
          sum[r][i] = fma(broadcast(x[u * R + r]), columns[i], sum[r][i]);
      }
    }
    for (int r = 0; r < R; ++r) {
      for (int i = 0; i < kCount; ++i)
        store<DType::kF32>(chains + r * ld + v + i * kWidth, sum[r][i]);
    }
  }
}

/// Reorders sums from even and odd columns into column order.
DLBLAS_OUTLINE void order_pairs(const RowWork& w, int rows) {
  for (int r = 0; r < rows; ++r) {
    for (int64_t v = 0; v + 2 * kWidth <= w.j1 - w.j0; v += 2 * kWidth) {
      float* const sums = w.sums + r * w.ld + v;
      const Pair p = load2<DType::kF32, DType::kF32>(sums);
      store2<DType::kF32>(sums, zip(p.a, p.b));
    }
  }
}

template <DType E, int R, int U>
void row_major(const RowWork& w) {
  if (w.p.k == 0) {
    for (int64_t v = 0; v < R * w.ld; v += kWidth) store<DType::kF32>(w.sums + v, zero());
  }
  const int64_t whole = (w.j1 - w.j0) / kAccess<E, R> * kAccess<E, R>;
  for (int64_t k = 0; k < w.p.k;) {
    const int64_t begin = k, end = smaller(w.p.k, k + w.p.sums.chain);
    for (; k + U <= end; k += U) row_streams<E, R, U>(w, k, k == begin);
    for (; k < end; ++k) row_streams<E, R, 1>(w, k, k == begin);
    if (whole < w.j1 - w.j0) last_streams<E>(w, begin, end, R, whole);
    end_chain(w, R, begin, end);
  }
  if constexpr (E == DType::kBF16 && kVectors<E, R> == 2) order_pairs(w, R);
}

/// Rows of a for dot products: depth k of row r is at data[r · ld + k - first].
struct DotRows {
  const float* data;
  int64_t ld, first;
};

/// The depths from k on, fewer than an access, for any numbers of columns and rows.
template <DType E>
DLBLAS_OUTLINE void last_dots(const RowWork& w, const DotRows& a, const char* b, int64_t k,
                              int64_t end, int columns, int rows, float* sums) {
  for (; k < end; k += kWidth) {
    for (int r = 0; r < rows; ++r) {
      const Vec row = load_first<DType::kF32>(a.data + r * a.ld + k - a.first, w.p.k - k);
      for (int c = 0; c < columns; ++c) {
        float* const sum = sums + (r * columns + c) * kWidth;
        const Vec column = load_first<E>(at<E>(b + c * w.b.col * kElementBytes<E>, k), w.p.k - k);
        store<DType::kF32>(sum, fma(row, column, load<DType::kF32>(sum)));
      }
    }
  }
}

/// One chain of C columns of a transposed b: dot products over depths [k, end), with R · C vectors
/// of partial sums. kShared: part of a chain, which continues from `sums` unless it begins; the
/// adjacent columns come next, at the same depths.
template <DType E, int R, int C, bool kShared = false>
DLBLAS_OUTLINE void dot_chain(const RowWork& w, const DotRows& a, const char* b, int64_t k,
                              int64_t end, bool begins, float* sums) {
  constexpr int kCount = 2;
  const int64_t step = w.b.col * kElementBytes<E>, depth = w.p.k;
  // Near its end, a column prefetches the beginning of the one that replaces it.
  const int64_t turn = depth - w.ahead / kElementBytes<E>;
  const int64_t next = w.ahead + C * step - depth * kElementBytes<E>;
  Vec sum[R][C];
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c)
      sum[r][c] = !kShared || begins ? zero() : load<DType::kF32>(sums + (r * C + c) * kWidth);
  }
  const float* x = a.data + k - a.first;
  for (; k + kCount * kWidth <= end; k += kCount * kWidth, x += kCount * kWidth) {
    const int64_t ahead = kShared ? C * step : k < turn ? w.ahead : next;
    Pair row[R];
    for (int r = 0; r < R; ++r) row[r] = load2<DType::kF32, E>(x + r * a.ld);
    for (int c = 0; c < C; ++c) {
      const char* from = at<E>(b + c * step, k);
      for (int line = 0; ahead && line < kCount * kVectorBytes<E>; line += 64)
        prefetch(from + ahead + line);
      const Pair column = load2<E, E>(from);
      for (int r = 0; r < R; ++r)
        sum[r][c] = fma(row[r].b, column.b, fma(row[r].a, column.a, sum[r][c]));
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) store<DType::kF32>(sums + (r * C + c) * kWidth, sum[r][c]);
  }
  if (k < end) last_dots<E>(w, a, b, k, end, C, R, sums);
}

/// Depths per chain. One column must match a library's dot product, which has short chains; many
/// columns need not.
DLBLAS_INLINE int64_t dot_depths(const RowWork& w) {
  return (w.p.n == 1 ? 8 : 16 * kWidth) * kWidth;
}

/// The sums of one chain, or of all of them, for R rows and C columns.
struct DotSums {
  float *sums, *totals, *errors;
  bool one;
  DotSums behind(int64_t floats) const {
    return {sums + floats, totals + floats, errors + floats, one};
  }
};
/// Adds their lanes: columns j to j + C of the chunk.
template <int R, int C>
DLBLAS_INLINE void add_lanes(const RowWork& w, int64_t j, const DotSums& s) {
  for (int i = 0; i < R * C; ++i) {
    const Vec sum = s.one ? load<DType::kF32>(s.sums + i * kWidth)
                          : total_of(load<DType::kF32>(s.totals + i * kWidth),
                                     load<DType::kF32>(s.errors + i * kWidth));
    w.sums[i / C * w.ld + (j - w.j0) + i % C] = reduce_add(sum);
  }
}

/// C columns of a transposed b.
template <DType E, int R, int C>
void row_dots(const RowWork& w, int64_t j) {
  const int64_t chain = dot_depths(w);
  const char* const b = address(w.b, 0, j);
  const DotRows a = {w.rows, w.p.k, 0};
  alignas(64) float sums[R * C * kWidth], totals[R * C * kWidth], errors[R * C * kWidth];
  const bool one = w.p.k <= chain;
  if (one) dot_chain<E, R, C>(w, a, b, 0, w.p.k, true, sums);
  for (int64_t k = 0; !one && k < w.p.k; k += chain) {
    dot_chain<E, R, C>(w, a, b, k, smaller(w.p.k, k + chain), true, sums);
    end_dots(sums, totals, errors, R * C, k == 0);
  }
  add_lanes<R, C>(w, j, {sums, totals, errors, one});
}

constexpr int kMaxSums = kWidth == 16 ? 16 : 8;  // vectors of one chain: more would spill
/// Depths of a part of a; within a part, the rows follow each other.
constexpr int64_t kPart = 32 * kWidth;
static_assert(kPart <= kSharedDepth);

/// A chunk of at most kSharedColumns, one part of the depth after the other. The sums equal those
/// of row_dots, bit for bit.
template <DType E>
DLBLAS_OUTLINE void shared_dots(const RowWork& w, int64_t padded) {
  constexpr int R = kMaxRowGroup, C = kMaxSums / R;
  constexpr int64_t kEach = R * kWidth, kFloats = kSharedColumns * kEach;
  alignas(64) float sums[kFloats], totals[kFloats], errors[kFloats];
  const int64_t chain = dot_depths(w), columns = w.j1 - w.j0, whole = columns / C * C;
  const DotSums all = {sums, totals, errors, w.p.k <= chain};
  for (int64_t k = 0; k < w.p.k || k == 0; k += kPart) {
    const int64_t end = smaller(w.p.k, k + kPart);
    const DotRows a = {w.rows + k * padded, kPart, k};
    const bool begins = k % chain == 0;
    for (int64_t j = 0; j < whole; j += C)
      dot_chain<E, R, C, true>(w, a, address(w.b, 0, w.j0 + j), k, end, begins, sums + j * kEach);
    for (int64_t j = whole; j < columns; ++j)
      dot_chain<E, R, 1, true>(w, a, address(w.b, 0, w.j0 + j), k, end, begins, sums + j * kEach);
    if (!all.one && (end == w.p.k || end % chain == 0))
      end_dots(sums, totals, errors, static_cast<int>(columns) * R, k < chain);
  }
  for (int64_t j = 0; j < whole; j += C) add_lanes<R, C>(w, w.j0 + j, all.behind(j * kEach));
  for (int64_t j = whole; j < columns; ++j) add_lanes<R, 1>(w, w.j0 + j, all.behind(j * kEach));
}

template <DType E, int R, int U>
void row_transposed(const RowWork& w) {
  constexpr int kColumns = U * R > kMaxSums ? kMaxSums / R : U;
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

/// Rows of a group: the smallest of 1, 2, 4, 8 that suffices; the surplus rows of a are zero.
template <DType E>
void row_group(const RowWork& w, int64_t rows, const CpuGemmRowConfig& c) {
  if (rows <= 1) return row_unrolled<E, 1>(w, c);
  if (rows <= 2) return row_unrolled<E, 2>(w, c);
  if (rows <= 4) return row_unrolled<E, 4>(w, c);
  row_unrolled<E, kMaxRowGroup>(w, c);
}

template <DType E>
struct TypeOf {
  static constexpr DType kValue = E;
};

template <typename Epilogue>
void row(const GemmJob& p, const CpuGemmRowConfig& c, int64_t j0, int64_t j1, const float* rows,
         float* sums) {
  constexpr int kParts = Epilogue::kParts;
  const auto& params = *static_cast<const typename Epilogue::Params*>(p.epilogue);
  const int64_t plane = kMaxRowGroup * c.block_n;
  const bool shared = shares_columns(c.dots, p.m);
  const int64_t padded = group_rows(p.m);
  const int64_t width = shared ? smaller(kSharedColumns, c.block_n) : c.block_n;
  for (int64_t j = j0; j < j1; j += width) {
    const int64_t end = smaller(j1, j + width);
    for (int64_t i = 0; i < p.m; i += kMaxRowGroup) {
      const int64_t group = smaller(kMaxRowGroup, p.m - i);
      for (int part = 0; part < kParts; ++part) {
        const GemmMatrix& b = p.b[part];
        const RowWork w{p,
                        b,
                        j,
                        end,
                        rows + i * (shared ? kPart : p.k),
                        sums + part * kRowPlanes * plane,
                        c.block_n,
                        plane,
                        c.prefetch};
        const auto columns = [&](auto type) {
          constexpr DType E = decltype(type)::kValue;
          shared ? shared_dots<E>(w, padded) : row_group<E>(w, group, c);
        };
        if (b.type == DType::kF32) columns(TypeOf<DType::kF32>{});
        if (b.type == DType::kF16) columns(TypeOf<DType::kF16>{});
        if (b.type == DType::kBF16) columns(TypeOf<DType::kBF16>{});
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

/// Packs a part by part along its depth; within a part, all rows one after the other.
void pack_parts(const GemmJob& p, float* rows) {
  const int64_t padded = group_rows(p.m);
  for (int64_t k = 0; k < p.k; k += kPart, rows += padded * kPart) {
    const int64_t depth = smaller(kPart, p.k - k);
    for (int64_t i = 0; i < p.m; ++i)
      pack(p.a.type, {address(p.a, i, k), p.a.col, 0}, depth, 1, kWidth, rows + i * kPart);
    for (int64_t v = p.m * kPart; v < padded * kPart; ++v) rows[v] = 0.0f;
  }
}

void pack_rows(const GemmJob& p, const CpuGemmRowConfig& c, float* rows) {
  int padded = 1;
  while (padded < p.m) padded *= 2;
  if (!c.dots && p.m > 1)
    return pack(p.a.type, {address(p.a, 0, 0), p.a.row, p.a.col}, p.m, p.k, padded, rows);
  if (shares_columns(c.dots, p.m)) return pack_parts(p, rows);
  // A row of a, packed as lanes of one depth, becomes contiguous panels; what its last panel spills
  // is overwritten by the next row, or cleared below.
  for (int64_t i = 0; i < p.m; ++i) {
    pack(p.a.type, {address(p.a, i, 0), p.a.col, 0}, p.k, 1, kWidth, rows + i * p.k);
  }
  for (int64_t v = p.m * p.k; v < padded * p.k; ++v) rows[v] = 0.0f;
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
