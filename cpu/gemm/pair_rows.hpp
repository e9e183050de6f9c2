// Few rows of bf16 by AVX512_BF16, with b's columns contiguous along K: dot products of pairs, so b
// is read in place and neither packed nor widened. A tile of 8 rows and 3 columns of sums takes 11
// loads for 24 instructions. A chunk of columns stays in L2 for all groups of rows, a part of a
// group in L1 for all of the chunk's columns.
// In: a job, rows of a as they are. Out: what the epilogue stores. Numerics: each lane sums the
// pairs at its place in 32 terms, in chains that are added with their errors kept; the lanes are
// added last, in one fixed order (like few_rows.hpp's dot products).
// Compiled with AVX512_BF16. Read next: pairs.hpp, few_rows.hpp, run.cpp (run_few_rows).
#pragma once

#include "cpu/gemm/dot_sums.hpp"
#include "cpu/gemm/pairs.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

constexpr int kPairTerms = Bf16Terms::kTerms;
constexpr int64_t padded_depth(int64_t k) { return (k + kPairTerms - 1) / kPairTerms * kPairTerms; }

/// Terms of a part, and of one of up to 2 rows.
constexpr int64_t kPairPart = 1024, kLongPart = 4096;
constexpr int64_t part_terms(int64_t m) { return m <= 2 ? kLongPart : kPairPart; }

/// Part by part; within one the rows, so that they do not lie a power of two apart and keep each
/// other out of L1. Zeros past K, and in rows past the last up to a whole group.
void pack_pair_rows(const GemmJob& p, const CpuGemmRowConfig&, float* rows) {
  auto* to = reinterpret_cast<uint16_t*>(rows);
  for (int64_t begin = 0; begin < p.k; begin += part_terms(p.m)) {
    const int64_t terms = smaller(part_terms(p.m), p.k - begin);
    for (int64_t i = 0; i < group_rows(p.m); ++i) {
      const auto* const from = reinterpret_cast<const uint16_t*>(address(p.a, i, begin));
      const int64_t count = i < p.m ? terms : 0;
      for (int64_t k = 0; k < terms; k += kPairTerms, to += kPairTerms) {
        if (p.a.col == 1 || k >= count) {
          _mm512_storeu_si512(to, Bf16Terms::load(from + k, count - k));
        } else {
          for (int64_t t = 0; t < kPairTerms; ++t)
            to[t] = k + t < count ? from[(k + t) * p.a.col] : uint16_t{0};
        }
      }
    }
  }
}

/// R rows, `row_pitch` terms apart, times C columns, over part of a chain.
struct PairDots {
  const uint16_t* rows;
  int64_t row_pitch;
  const char* b;  // the first column
  int64_t pitch;  // bytes from column to column
  int64_t terms;  // from here on
  int64_t ahead;  // bytes from a column to what is fetched; 0: none
  bool begins;    // a chain; otherwise it continues from the sums
};

/// R · C vectors of sums, [row][column].
template <int R, int C>
DLBLAS_OUTLINE void pair_dots(const PairDots& t, float* sums) {
  Vec sum[R][C];
  DLBLAS_UNROLL
  for (int r = 0; r < R; ++r) {
    DLBLAS_UNROLL
    for (int c = 0; c < C; ++c)
      sum[r][c] = t.begins ? zero() : load<DType::kF32>(sums + (r * C + c) * kWidth);
  }
  const auto multiply = [&](const uint16_t* rows, const Chunk(&columns)[C])
      __attribute__((always_inline)) {
    DLBLAS_UNROLL
    for (int r = 0; r < R; ++r) {
      const Chunk row = _mm512_loadu_si512(rows + r * t.row_pitch);
      DLBLAS_UNROLL
      for (int c = 0; c < C; ++c)
        sum[r][c] = _mm512_dpbf16_ps(sum[r][c], (__m512bh)row, (__m512bh)columns[c]);
    }
  };
  Chunk columns[C];
  int64_t k = 0;
  for (; k + kPairTerms <= t.terms; k += kPairTerms) {
    DLBLAS_UNROLL
    for (int c = 0; c < C; ++c) {
      const char* const from = t.b + c * t.pitch + 2 * k;
      columns[c] = _mm512_loadu_si512(from);
      if (t.ahead) prefetch(from + t.ahead);
    }
    multiply(t.rows + k, columns);
  }
  if (k < t.terms) {  // K's last
    DLBLAS_UNROLL
    for (int c = 0; c < C; ++c)
      columns[c] = Bf16Terms::load(reinterpret_cast<const uint16_t*>(t.b + c * t.pitch + 2 * k),
                                   t.terms - k);
    multiply(t.rows + k, columns);
  }
  DLBLAS_UNROLL
  for (int r = 0; r < R; ++r) {
    DLBLAS_UNROLL
    for (int c = 0; c < C; ++c) store<DType::kF32>(sums + (r * C + c) * kWidth, sum[r][c]);
  }
}

/// A chunk's columns for the group of R rows from row i on, C at a time, to out[row · ld + column].
template <int R, int C>
void pair_group(const GemmJob& p, const GemmMatrix& b, int64_t j, int64_t columns,
                const uint16_t* packed, int64_t i, bool fetches, float* out, int64_t ld) {
  constexpr int64_t kEach = R * kWidth, kFloats = kPairColumns * kEach;
  static_assert(kPairColumns % C == 0);
  alignas(64) float sums[kFloats], totals[kFloats], errors[kFloats];
  // A single column must match a library's dot product, which has short chains.
  const int64_t chain = p.n == 1 ? 8 * kWidth : 16 * kWidth * kWidth;
  const int64_t part = part_terms(p.m), step = smaller(chain, part);
  const int64_t pitch = b.col * 2, whole = columns / C * C;
  const bool one = p.k <= chain;
  for (int64_t k = 0; k < p.k || k == 0; k += step) {
    const int64_t end = smaller(p.k, k + step), begin = k / part * part;
    const int64_t row_pitch = padded_depth(smaller(part, p.k - begin));
    const uint16_t* const rows = packed + begin * group_rows(p.m) + i * row_pitch + (k - begin);
    PairDots t{rows, row_pitch, address(b, k, j), pitch, end - k, 0, k % chain == 0};
    if (fetches) t.ahead = C * pitch;
    int64_t c = 0;
    for (; c < whole; c += C, t.b += C * pitch) pair_dots<R, C>(t, sums + c * kEach);
    for (; c < columns; ++c, t.b += pitch) pair_dots<R, 1>(t, sums + c * kEach);
    if (!one && (end == p.k || end % chain == 0))
      end_dots(sums, totals, errors, static_cast<int>(columns) * R, k < chain);
  }
  for (int64_t v = 0; v < columns * R; ++v) {
    const Vec sum = one ? load<DType::kF32>(sums + v * kWidth)
                        : total_of(load<DType::kF32>(totals + v * kWidth),
                                   load<DType::kF32>(errors + v * kWidth));
    // A tile's sums are [row][column].
    const int64_t tile = v / R < whole ? C : 1, first = v / (R * tile) * tile, in = v - first * R;
    out[in / tile * ld + first + in % tile] = reduce_add(sum);
  }
}

/// Columns [j0, j1) in chunks.
void row_of_pairs(const GemmJob& p, const CpuGemmRowConfig& c, int64_t j0, int64_t j1,
                  const float* rows, float* sums) {
  const GemmEpilogue& epilogue = *p.epilogue;
  constexpr int64_t plane = kMaxDotRows * kPairColumns;
  static_assert(kMaxDotRows <= kRowPlanes * kMaxRowGroup);  // the floats of `sums`, for any block_n
  for (int64_t j = j0; j < j1; j += kPairColumns) {
    const int64_t columns = smaller(kPairColumns, j1 - j);
    for (int part = 0; part < epilogue.parts; ++part) {
      for (int64_t i = 0; i < p.m; i += kMaxRowGroup) {
        const auto group = [&]<int R, int C>() {
          pair_group<R, C>(p, p.b[part], j, columns, reinterpret_cast<const uint16_t*>(rows), i,
                           c.prefetch && i == 0, sums + part * plane + i * kPairColumns,
                           kPairColumns);
        };
        const int64_t left = p.m - i;
        if (left == 1) group.template operator()<1, 8>();
        if (left == 2) group.template operator()<2, 8>();
        if (left == 3 || left == 4) group.template operator()<4, 6>();
        if (left > 4) group.template operator()<8, 3>();
      }
    }
    for (int64_t r = 0; r < p.m; ++r) {
      const float* of_row[kMaxParts];
      for (int part = 0; part < epilogue.parts; ++part)
        of_row[part] = sums + part * plane + r * kPairColumns;
      epilogue.store(p.params, r, j, columns, of_row);
    }
  }
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
