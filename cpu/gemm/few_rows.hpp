// The few-row product of one instruction set: b is read once, in place, in its own layout.
// Memory-bound: the number of sequential streams in flight decides the speed.
// In: columns [j0, j1) of b, a as f32 rows. Out: what the epilogue stores of those columns.
// Numerics: row-major b accumulates like the blocked form, bit for bit; a transposed b sums kWidth
// lanes per column, in chains whose sums are added with their errors kept, and adds the lanes last,
// in one fixed order.
// Flow: [launch], called by cpu/gemm/run.cpp.  Read next: epilogue.hpp.
#pragma once

#include "cpu/gemm/dot_sums.hpp"
#include "cpu/gemm/loops.hpp"
#include "cpu/gemm/pack.hpp"

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
  int64_t ahead;  // bytes from what is read to what is fetched
};

/// to = from, or to += from: a group's sums over the chunk.
DLBLAS_ONCE void move_sums(const RowWork& w, int rows, const float* from, float* to, bool adds) {
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
DLBLAS_ONCE void end_span(const RowWork& w, int rows, bool first, bool last) {
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
DLBLAS_ONCE void end_chain(const RowWork& w, int rows, int64_t begin, int64_t end) {
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
DLBLAS_ONCE void last_streams(const RowWork& w, int64_t begin, int64_t end, int rows, int64_t v) {
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

/// Streams of f32 are never prefetched: a thread's share of a row is two pages or more, and
/// fetching what is read anyway would take a quarter more time.
template <DType E>
constexpr bool kPrefetches = E != DType::kF32;

/// U rows of b from depth k on, over the chunk: every vector of b feeds R partial sums held in L1,
/// at `chains`. `rows`: of a, [U][R]. `begins`: these rows are the first of a chain.
template <DType E, int R, int U, int kCount>
void row_streams(const RowWork& w, const float* rows, int64_t k, bool begins, float* chains) {
  constexpr int64_t kAccess = kCount * kWidth;
  const char* b = address(w.b, k, w.j0);
  // The compiler knows that no store below changes a copy: a small one stays in registers.
  constexpr bool kCopies = U * R <= 32;
  float copy[kCopies ? U * R : 1];
  if constexpr (kCopies) __builtin_memcpy(copy, rows, sizeof copy);
  const float* const x = kCopies ? copy : rows;
  // A chain begins with zeros, always the same ones.
  alignas(64) static constexpr float kZeros[kAccess] = {};
  const float* const before = begins ? kZeros : chains;
  const int64_t old_ld = begins ? 0 : w.ld, old_columns = begins ? 0 : -1;
  const int64_t step = w.b.row * kElementBytes<E>;
  const int64_t n = w.j1 - w.j0, ld = w.ld, ahead = w.ahead;
  for (int64_t v = 0; v + kAccess <= n; v += kAccess) {
    Vec sum[R][kCount];
    for (int r = 0; r < R; ++r)
      load_vectors<DType::kF32>(before + r * old_ld + (v & old_columns), sum[r]);
    for (int u = 0; u < U; ++u) {
      const char* from = at<E>(b + u * step, v);
      for (int line = 0; kPrefetches<E> && ahead && line < kCount * kVectorBytes<E>; line += 64)
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
DLBLAS_ONCE void order_pairs(const RowWork& w, int rows) {
  for (int r = 0; r < rows; ++r) {
    for (int64_t v = 0; v + 2 * kWidth <= w.j1 - w.j0; v += 2 * kWidth) {
      float* const sums = w.sums + r * w.ld + v;
      const Pair p = load2<DType::kF32, DType::kF32>(sums);
      store2<DType::kF32>(sums, zip(p.a, p.b));
    }
  }
}

/// Rows of a for dot products: depth k of row r is at data[r · ld + k - first].
struct DotRows {
  const float* data;
  int64_t ld, first;
};
/// Bytes from a column to what is fetched: up to depth `turn`, and from there on. 0: what is read.
struct DotFetch {
  int64_t turn, before, after;
};

/// The depths from k on, fewer than an access, for any numbers of columns and rows.
template <DType E>
DLBLAS_ONCE void last_dots(const RowWork& w, const DotRows& a, const char* b, int64_t k,
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

/// Loads v once: g++ would load it again for each use (8 rows of f32: a fifth of the time).
DLBLAS_INLINE void keep([[maybe_unused]] Pair& v) {
#if defined(__x86_64__)
  asm("" : "+v"(v.a), "+v"(v.b));
#endif
}

/// Part of a chain of C columns of a transposed b: dot products over depths [k, end), with R · C
/// vectors of partial sums, which continue from `sums` unless the chain begins.
template <DType E, int R, int C>
void dot_chain(const RowWork& w, const DotRows& a, const char* b, int64_t k, int64_t end,
               bool begins, const DotFetch& fetch, float* sums) {
  constexpr int64_t kCount = 2, kAccess = kCount * kWidth;
  const int64_t step = w.b.col * kElementBytes<E>;
  Vec sum[R][C];
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c)
      sum[r][c] = begins ? zero() : load<DType::kF32>(sums + (r * C + c) * kWidth);
  }
  const float* x = a.data + k - a.first;
  const auto load_row = [&](int r) __attribute__((always_inline)) {
    return load2<DType::kF32, E>(x + r * a.ld);
  };
  while (k + kAccess <= end) {
    const bool turns = k < fetch.turn;
    const int64_t ahead = turns ? fetch.before : fetch.after;
    const int64_t stop = turns ? smaller(end, fetch.turn + kAccess - 1) : end;
    const auto load_column = [&](int c) __attribute__((always_inline)) {
      const char* from = at<E>(b + c * step, k);
      for (int line = 0; line < kCount * kVectorBytes<E>; line += 64) prefetch(from + ahead + line);
      return load2<E, E>(from);
    };
    for (; k + kAccess <= stop; k += kAccess, x += kAccess) {
      // The fewer of both stay in registers; columns where they are as many.
      if constexpr (R < C) {
        Pair row[R];
        DLBLAS_UNROLL
        for (int r = 0; r < R; ++r) row[r] = load_row(r);
        DLBLAS_UNROLL
        for (int c = 0; c < C; ++c) {
          Pair column = load_column(c);
          if constexpr (R > 1) keep(column);
          DLBLAS_UNROLL
          for (int r = 0; r < R; ++r)
            sum[r][c] = fma(row[r].b, column.b, fma(row[r].a, column.a, sum[r][c]));
        }
      } else {
        Pair column[C];
        DLBLAS_UNROLL
        for (int c = 0; c < C; ++c) column[c] = load_column(c);
        DLBLAS_UNROLL
        for (int r = 0; r < R; ++r) {
          Pair row = load_row(r);
          keep(row);
          DLBLAS_UNROLL
          for (int c = 0; c < C; ++c)
            sum[r][c] = fma(row.b, column[c].b, fma(row.a, column[c].a, sum[r][c]));
        }
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) store<DType::kF32>(sums + (r * C + c) * kWidth, sum[r][c]);
  }
  if (k < end) last_dots<E>(w, a, b, k, end, C, R, sums);
}

// ---- the code for each type of b, as the loops below see it ----

constexpr int kMaxSums = kWidth == 16 ? 16 : 8;  // vectors of one chain: more would spill
/// Columns whose dot products with R rows are computed side by side: up to eight streams.
constexpr int dot_columns(int rows) { return smaller(8, kMaxSums / rows); }

using StreamFn = void (*)(const RowWork&, const float* rows, int64_t k, bool begins, float* chains);
using DotFn = void (*)(const RowWork&, const DotRows&, const char* b, int64_t k, int64_t end,
                       bool begins, const DotFetch&, float* sums);

/// Rows of b that are streamed side by side. Zen 5, AVX-512, November 2026: eight instead of four
/// take 0.7 to 0.9 of the time for f32 and for 8 rows of 16 bits; 1.1 for fewer rows of 16 bits,
/// and for 8 with AVX2 1.6. Two streams were never the fastest.
template <DType E, int R>
constexpr int kStreams = E == DType::kF32 || (kWidth == 16 && R == kMaxRowGroup) ? 8 : 4;

/// For a group of 1, 2, 4 or 8 rows.
struct RowCode {
  int vectors;  // of b per access
  int streams;
  StreamFn run;  // so many streams
  StreamFn one;  // for one row: what is left of a chain's depths
  DotFn dots;    // of dot_columns() columns
};
struct TypeCode {
  int bytes;      // of an element
  bool even_odd;  // two vectors hold the even and the odd columns
  RowCode rows[4];
  DotFn dot;  // one row, one column
  void (*last)(const RowWork&, int64_t begin, int64_t end, int rows, int64_t v);
};

template <DType E, int R>
constexpr RowCode row_code() {
  constexpr int kCount = kVectors<E, R>;
  return {kCount, kStreams<E, R>, row_streams<E, R, kStreams<E, R>, kCount>,
          row_streams<E, 1, 1, kCount>, dot_chain<E, R, dot_columns(R)>};
}
template <DType E>
constexpr TypeCode kTypeCode = {
    kElementBytes<E>,
    E == DType::kBF16,
    {row_code<E, 1>(), row_code<E, 2>(), row_code<E, 4>(), row_code<E, 8>()},
    dot_chain<E, 1, 1>,
    last_streams<E>};

DLBLAS_INLINE const TypeCode& code_of(DType type) {
  if (type == DType::kF32) return kTypeCode<DType::kF32>;
  return type == DType::kF16 ? kTypeCode<DType::kF16> : kTypeCode<DType::kBF16>;
}

// ---- row-major b ----

/// Streams for a group of R rows, 1 << `log_rows`; `of_type` belongs to b's.
DLBLAS_ONCE void row_major(const RowWork& w, const TypeCode& of_type, int log_rows) {
  const RowCode& code = of_type.rows[log_rows];
  const int rows = 1 << log_rows, streams = code.streams;
  if (w.p.k == 0) {
    for (int64_t v = 0; v < rows * w.ld; v += kWidth) store<DType::kF32>(w.sums + v, zero());
  }
  const int64_t access = code.vectors * kWidth, whole = (w.j1 - w.j0) / access * access;
  float* const chains = w.sums + w.plane;
  for (int64_t k = 0; k < w.p.k;) {
    const int64_t begin = k, end = smaller(w.p.k, k + w.p.sums.chain);
    for (; k + streams <= end; k += streams) code.run(w, w.rows + k * rows, k, k == begin, chains);
    for (; k < end; ++k) {
      for (int r = 0; r < rows; ++r)
        code.one(w, w.rows + k * rows + r, k, k == begin, chains + r * w.ld);
    }
    if (whole < w.j1 - w.j0) of_type.last(w, begin, end, rows, whole);
    end_chain(w, rows, begin, end);
  }
  if (of_type.even_odd && code.vectors == 2) order_pairs(w, rows);
}

// ---- transposed b ----

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
DLBLAS_ONCE void add_lanes(const RowWork& w, int rows, int columns, int64_t j, const DotSums& s) {
  int64_t i = 0;
  for (int r = 0; r < rows; ++r) {
    float* const to = w.sums + r * w.ld + (j - w.j0);
    for (int c = 0; c < columns; ++c, i += kWidth) {
      const Vec sum =
          s.one ? load<DType::kF32>(s.sums + i)
                : total_of(load<DType::kF32>(s.totals + i), load<DType::kF32>(s.errors + i));
      to[c] = reduce_add(sum);
    }
  }
}

/// Columns of a transposed b for a group of rows; `run` takes so many of both.
DLBLAS_ONCE void row_dots(const RowWork& w, const DotRows& a, int64_t bytes, DotFn run, int rows,
                          int columns, int64_t j) {
  const int64_t chain = dot_depths(w), depth = w.p.k;
  const char* const b = address(w.b, 0, j);
  // Near its end, a column prefetches the beginning of the one that replaces it.
  const DotFetch fetch = {depth - w.ahead / bytes, w.ahead,
                          w.ahead + (columns * w.b.col - depth) * bytes};
  constexpr int kFloats = kMaxSums * kWidth;
  alignas(64) float sums[kFloats], totals[kFloats], errors[kFloats];
  const bool one = depth <= chain;
  if (one) run(w, a, b, 0, depth, true, fetch, sums);
  for (int64_t k = 0; !one && k < depth; k += chain) {
    run(w, a, b, k, smaller(depth, k + chain), true, fetch, sums);
    end_dots(sums, totals, errors, rows * columns, k == 0);
  }
  add_lanes(w, rows, columns, j, {sums, totals, errors, one});
}

DLBLAS_ONCE void row_transposed(const RowWork& w, const TypeCode& of_type, int log_rows) {
  const int rows = 1 << log_rows, columns = dot_columns(rows);
  const DotRows a = {w.rows, w.p.k, 0};
  if (w.j1 - w.j0 >= columns) {
    // The last columns may begin among the ones before, which get the same bits again.
    for (int64_t j = w.j0; j < w.j1; j += columns)
      row_dots(w, a, of_type.bytes, of_type.rows[log_rows].dots, rows, columns,
               smaller(j, w.j1 - columns));
    return;
  }
  for (int r = 0; r < rows; ++r) {
    RowWork one = w;
    one.sums += r * w.ld;
    for (int64_t j = w.j0; j < w.j1; ++j)
      row_dots(one, {w.rows + r * w.p.k, w.p.k, 0}, of_type.bytes, of_type.dot, 1, 1, j);
  }
}

/// Depths of a part of a; within a part, the rows follow each other.
constexpr int64_t kPart = 32 * kWidth;
static_assert(kPart <= kSharedDepth);

/// A chunk of at most kSharedColumns, one part of the depth after the other. The sums equal those
/// of row_dots, bit for bit.
DLBLAS_ONCE void shared_dots(const RowWork& w, const TypeCode& of_type, int64_t padded) {
  constexpr int R = kMaxRowGroup, C = dot_columns(R);
  constexpr int64_t kEach = R * kWidth, kFloats = kSharedColumns * kEach;
  alignas(64) float sums[kFloats], totals[kFloats], errors[kFloats];
  const int64_t chain = dot_depths(w), columns = w.j1 - w.j0, whole = columns / C * C;
  const int64_t step = w.b.col * of_type.bytes;
  const DotSums all = {sums, totals, errors, w.p.k <= chain};
  // The adjacent columns come next, at the same depths.
  const DotFetch fetch = {w.p.k, C * step, 0}, fetch_one = {w.p.k, step, 0};
  for (int64_t k = 0; k < w.p.k || k == 0; k += kPart) {
    const int64_t end = smaller(w.p.k, k + kPart);
    const DotRows a = {w.rows + k * padded, kPart, k};
    const bool begins = k % chain == 0;
    for (int64_t j = 0; j < whole; j += C)
      of_type.rows[3].dots(w, a, address(w.b, 0, w.j0 + j), k, end, begins, fetch,
                           sums + j * kEach);
    for (int64_t j = whole; j < columns; ++j) {
      for (int r = 0; r < R; ++r)
        of_type.dot(w, {a.data + r * a.ld, a.ld, k}, address(w.b, 0, w.j0 + j), k, end, begins,
                    fetch_one, sums + j * kEach + r * kWidth);
    }
    if (!all.one && (end == w.p.k || end % chain == 0))
      end_dots(sums, totals, errors, static_cast<int>(columns) * R, k < chain);
  }
  for (int64_t j = 0; j < whole; j += C) add_lanes(w, R, C, w.j0 + j, all.behind(j * kEach));
  for (int64_t j = whole; j < columns; ++j) add_lanes(w, R, 1, w.j0 + j, all.behind(j * kEach));
}

/// Bytes from rows of b to those that a group of 1 << `log_rows` rows of a fetches meanwhile: the
/// next ones, or if these are short, those that begin about a page later.
int64_t bytes_ahead(const CpuGemmRowConfig& c, const GemmMatrix& b, const TypeCode& of_type,
                    int log_rows) {
  constexpr int64_t kFar = 16384;
  if (c.prefetch != kNextRows) return c.prefetch;
  const int64_t next = of_type.rows[log_rows].streams * b.row * of_type.bytes;
  return next > 0 && next < kFar ? kFar / next * next : next;
}

void row(const GemmJob& p, const CpuGemmRowConfig& c, int64_t j0, int64_t j1, const float* rows,
         float* sums) {
  const GemmEpilogue& epilogue = *p.epilogue;
  const int64_t plane = kMaxRowGroup * c.block_n;
  const bool shared = shares_columns(c.dots, p.m);
  const int64_t padded = group_rows(p.m);
  const int64_t width = shared ? smaller(kSharedColumns, c.block_n) : c.block_n;
  for (int64_t j = j0; j < j1; j += width) {
    const int64_t end = smaller(j1, j + width);
    for (int64_t i = 0; i < p.m; i += kMaxRowGroup) {
      const int64_t group = smaller(kMaxRowGroup, p.m - i);
      // The smallest group of 1, 2, 4 or 8 rows that suffices; the surplus rows of a are zero.
      const int log_rows = group <= 1 ? 0 : group <= 2 ? 1 : group <= 4 ? 2 : 3;
      for (int part = 0; part < epilogue.parts; ++part) {
        const GemmMatrix& b = p.b[part];
        const TypeCode& of_type = code_of(b.type);
        const RowWork w{p,
                        b,
                        j,
                        end,
                        rows + i * (shared ? kPart : p.k),
                        sums + part * kRowPlanes * plane,
                        c.block_n,
                        plane,
                        bytes_ahead(c, b, of_type, log_rows)};
        if (shared) {
          shared_dots(w, of_type, padded);
        } else if (c.dots) {
          row_transposed(w, of_type, log_rows);
        } else {
          row_major(w, of_type, log_rows);
        }
      }
      for (int64_t r = 0; r < group; ++r) {
        const float* of_row[kMaxParts];
        for (int part = 0; part < epilogue.parts; ++part)
          of_row[part] = sums + part * kRowPlanes * plane + r * c.block_n;
        epilogue.store(p.params, i + r, j, end - j, of_row);
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
      pack_panels(p.a.type, {address(p.a, i, k), p.a.col, 0}, depth, 1, kWidth, rows + i * kPart);
    for (int64_t v = p.m * kPart; v < padded * kPart; ++v) rows[v] = 0.0f;
  }
}

void pack_rows(const GemmJob& p, const CpuGemmRowConfig& c, float* rows) {
  int padded = 1;
  while (padded < p.m) padded *= 2;
  if (!c.dots && p.m > 1)
    return pack_panels(p.a.type, {address(p.a, 0, 0), p.a.row, p.a.col}, p.m, p.k, padded, rows);
  if (shares_columns(c.dots, p.m)) return pack_parts(p, rows);
  // A row of a, packed as lanes of one depth, becomes contiguous panels; what its last panel spills
  // is overwritten by the next row, or cleared below.
  for (int64_t i = 0; i < p.m; ++i) {
    pack_panels(p.a.type, {address(p.a, i, 0), p.a.col, 0}, p.k, 1, kWidth, rows + i * p.k);
  }
  for (int64_t v = p.m * p.k; v < padded * p.k; ++v) rows[v] = 0.0f;
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
