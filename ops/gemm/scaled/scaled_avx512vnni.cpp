// The i8 product with row and column scales for AVX512_VNNI: vpdpbusd adds four products of u8 and
// s8 to an i32. Adding 128 makes b's codes u8, and a row's sums start at −128 times the sum of a's
// codes in that row: exact, since i32 wraps and a span's whole sum fits. Spans are added in f64.
//
//   tiles   b packed a block at a time, [K / 4][64 columns][4]; up to 6 rows × 64 columns
//   dots    b's columns are contiguous along K, and not packed: 6 rows × 4 columns × 64 terms
//
// The suffix of the file name selects its build flags. Everything but the table below has internal
// linkage: see cpu/simd.hpp for why. Read next: scaled_vnni.cpp, scaled_finish.hpp.
#include "ops/gemm/scaled/scaled_finish.hpp"
#include "ops/gemm/scaled/scaled_vnni_config.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::avx512 {
namespace {

using gemm::scaled::kVnniColumns;
using gemm::scaled::kVnniMostColumns;
using gemm::scaled::kVnniRows;
using gemm::scaled::kVnniSpan;
using gemm::scaled::VnniConfig;
using gemm::scaled::VnniPart;
using gemm::scaled::VnniRows;

using Codes = __m512i;
constexpr int64_t kBytes = sizeof(Codes);
constexpr int kDotRows = 6, kDotColumns = 4;

/// n codes, at most 64, that are `stride` bytes apart; the other bytes are zero.
DLBLAS_INLINE Codes load_codes(const uint8_t* from, int64_t stride, int64_t n) {
  if (stride == 1 && n >= kBytes) return _mm512_loadu_si512(from);
  if (n <= 0) return _mm512_setzero_si512();
  if (stride == 1) return _mm512_maskz_loadu_epi8(~uint64_t{0} >> (kBytes - n), from);
  alignas(64) uint8_t codes[kBytes] = {};
  for (int64_t i = 0; i < smaller(n, kBytes); ++i) codes[i] = from[i * stride];
  return _mm512_load_si512(codes);
}
/// i8 + 128 as u8.
DLBLAS_INLINE Codes raised(Codes codes) {
  return _mm512_xor_si512(codes, _mm512_set1_epi8(static_cast<char>(0x80)));
}
DLBLAS_INLINE Codes broadcast_four(const int8_t* from) {
  int32_t four;
  __builtin_memcpy(&four, from, 4);
  return _mm512_set1_epi32(four);
}

/// Packs a's codes of panels [p0, p1), and computes the values at which their sums start.
void pack_codes(const ScaledJob& p, const VnniRows& rows, int64_t p0, int64_t p1) {
  const auto height = static_cast<int>(rows.height);
  const Codes places =
      _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                         _mm512_set1_epi32(4 * height));
  for (int64_t row = p0 * height; row < p1 * height; ++row) {
    int8_t* to = rows.codes + row / height * height * rows.pitch + row % height * 4;
    for (int64_t k0 = 0; k0 < p.k; k0 += kVnniSpan) {
      Codes sum = _mm512_setzero_si512();
      for (int64_t k = k0; k < smaller(p.k, k0 + kVnniSpan); k += kBytes) {
        const Codes codes = row < rows.count
                                ? load_codes(code_at(p.a, rows.first + row, k), p.a.col, p.k - k)
                                : _mm512_setzero_si512();
        sum = _mm512_dpbusd_epi32(sum, _mm512_set1_epi8(1), codes);
        if (height == 1)
          _mm512_storeu_si512(to + k, codes);
        else
          _mm512_i32scatter_epi32(to + k * height, places, codes, 1);
      }
      rows.starts[k0 / kVnniSpan * height * rows.panels + row] =
          -128 * _mm512_reduce_add_epi32(sum);
    }
  }
}

/// Vector v of the 4 that hold a group's 64 columns at depth k, in a packed block of this depth (a
/// multiple of 4). Of every 16 columns, the first four are in vector 0, the next four in vector 1,
/// …: the order that unpacking bytes gives without a permutation.
DLBLAS_INLINE uint8_t* packed_at(uint8_t* block, int64_t depth, int64_t group, int64_t k, int v) {
  return block + (group * depth + k) * kVnniColumns + v * kBytes;
}

/// Packs b by rows, or with any strides: transposes four of K × 64 columns at a time.
DLBLAS_OUTLINE void pack_rows_of_b(const ScaledMatrix& b, int64_t k0, int64_t depth, int64_t j,
                                   int64_t columns, uint8_t* to, int64_t to_depth) {
  for (int64_t k = 0; k < depth; k += 4) {
    for (int64_t g = 0; g * kVnniColumns < columns; ++g) {
      Codes r[4];
      DLBLAS_UNROLL
      for (int i = 0; i < 4; ++i) {
        const uint8_t* from = code_at(b, k0 + k + i, j + g * kVnniColumns);
        r[i] = raised(load_codes(from, b.col, k + i < depth ? columns - g * kVnniColumns : 0));
        prefetch(from + 8 * b.row);
      }
      const Codes low01 = _mm512_unpacklo_epi8(r[0], r[1]),
                  high01 = _mm512_unpackhi_epi8(r[0], r[1]);
      const Codes low23 = _mm512_unpacklo_epi8(r[2], r[3]),
                  high23 = _mm512_unpackhi_epi8(r[2], r[3]);
      _mm512_storeu_si512(packed_at(to, to_depth, g, k, 0), _mm512_unpacklo_epi16(low01, low23));
      _mm512_storeu_si512(packed_at(to, to_depth, g, k, 1), _mm512_unpackhi_epi16(low01, low23));
      _mm512_storeu_si512(packed_at(to, to_depth, g, k, 2), _mm512_unpacklo_epi16(high01, high23));
      _mm512_storeu_si512(packed_at(to, to_depth, g, k, 3), _mm512_unpackhi_epi16(high01, high23));
    }
  }
}

/// Packs columns of b that are contiguous along K: transposes 64 of K × 16 columns at a time, in
/// units of four bytes.
DLBLAS_OUTLINE void pack_columns_of_b(const ScaledMatrix& b, int64_t k0, int64_t depth, int64_t j,
                                      int64_t columns, uint8_t* to, int64_t to_depth) {
  for (int64_t g = 0; g * kVnniColumns < columns; ++g) {
    for (int v = 0; v < 4; ++v) {
      for (int64_t k = 0; k < depth; k += kBytes) {
        Vec r[kWidth];
        for (int i = 0; i < kWidth; ++i) {
          const int64_t column = g * kVnniColumns + i / 4 * 16 + v * 4 + i % 4;
          const int64_t n = column < columns ? depth - k : 0;
          const uint8_t* from = code_at(b, k0 + k, j + column);
          r[i] = _mm512_castsi512_ps(raised(load_codes(from, 1, n)));
          prefetch(from + 4 * b.col);  // of the next vector
        }
        transpose(r);
        for (int i = 0; i < kWidth && k + 4 * i < depth; ++i)
          _mm512_storeu_si512(packed_at(to, to_depth, g, k + 4 * i, v), _mm512_castps_si512(r[i]));
      }
    }
  }
}

/// kRows rows × 64 columns of sums, which start at `starts` or, where that is null, continue.
template <int kRows>
DLBLAS_OUTLINE void multiply_tile(const int8_t* a, const uint8_t* b, int64_t steps,
                                  const int32_t* starts, int32_t* to, int64_t pitch) {
  constexpr int kVectors = kVnniColumns / kWidth;
  Codes sums[kRows][kVectors];
  DLBLAS_UNROLL
  for (int r = 0; r < kRows; ++r) {
    DLBLAS_UNROLL
    for (int v = 0; v < kVectors; ++v)
      sums[r][v] =
          starts ? _mm512_set1_epi32(starts[r]) : _mm512_loadu_si512(to + r * pitch + v * kWidth);
  }
#pragma GCC unroll 2
  for (int64_t k = 0; k < steps; ++k) {
    Codes columns[kVectors];
    DLBLAS_UNROLL
    for (int v = 0; v < kVectors; ++v) columns[v] = _mm512_loadu_si512(b + v * kBytes);
    DLBLAS_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const Codes four = broadcast_four(a + r * 4);
      DLBLAS_UNROLL
      for (int v = 0; v < kVectors; ++v)
        sums[r][v] = _mm512_dpbusd_epi32(sums[r][v], columns[v], four);
    }
    a += kRows * 4, b += kVectors * kBytes;
  }
  DLBLAS_UNROLL
  for (int r = 0; r < kRows; ++r) {
    DLBLAS_UNROLL
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_si512(to + r * pitch + v * kWidth, sums[r][v]);
  }
}

using Tile = void (*)(const int8_t*, const uint8_t*, int64_t, const int32_t*, int32_t*, int64_t);
constexpr Tile kTiles[kVnniRows] = {multiply_tile<1>, multiply_tile<2>, multiply_tile<3>,
                                    multiply_tile<4>, multiply_tile<5>, multiply_tile<6>};

/// Packs [k0, k0 + depth) × [j, j + columns) of b, and adds its products to the part's sums; calls
/// `after` for each panel while its sums are still in the caches.
template <typename F>
DLBLAS_INLINE void multiply_block(const ScaledJob& p, const VnniRows& rows, const VnniPart& part,
                                  int64_t k0, int64_t depth, int64_t j, int64_t columns,
                                  int64_t pitch, const F& after) {
  const int64_t packed_depth = (depth + 3) / 4 * 4;
  if (p.b.row == 1 && p.b.col != 1)
    pack_columns_of_b(p.b, k0, depth, j, columns, part.b, packed_depth);
  else
    pack_rows_of_b(p.b, k0, depth, j, columns, part.b, packed_depth);
  const int32_t* starts =
      k0 % kVnniSpan == 0 ? rows.starts + k0 / kVnniSpan * rows.height * rows.panels : nullptr;
  const Tile tile = kTiles[rows.height - 1];
  for (int64_t i = part.p0; i < part.p1; ++i) {
    const int64_t row = i * rows.height;
    for (int64_t c = 0; c < columns; c += kVnniColumns) {
      tile(rows.codes + row * rows.pitch + k0 * rows.height, part.b + c * packed_depth,
           packed_depth / 4, starts ? starts + row : nullptr,
           part.sums + (row - part.p0 * rows.height) * pitch + c, pitch);
    }
    after(i);
  }
}

/// The horizontal sums of four vectors, in one vector.
DLBLAS_INLINE __m128i add_lanes(Codes a, Codes b, Codes c, Codes d) {
  const Codes ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  const Codes cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
  const Codes sum = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
  const __m256i half =
      _mm256_add_epi32(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64(sum, 1));
  return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

/// kRows rows × four columns of b, of which n count; a's rows are `a_pitch` bytes apart.
template <int kRows>
DLBLAS_OUTLINE void multiply_dots(const ScaledMatrix& b, int64_t k0, int64_t depth, int64_t j,
                                  int64_t n, const int8_t* a, int64_t a_pitch,
                                  const int32_t* starts, int32_t* to, int64_t pitch) {
  Codes sums[kRows][kDotColumns];
  const uint8_t* from[kDotColumns];
  DLBLAS_UNROLL
  for (int c = 0; c < kDotColumns; ++c) {
    from[c] = code_at(b, k0, j + smaller(c, n - 1));
    DLBLAS_UNROLL
    for (int r = 0; r < kRows; ++r) sums[r][c] = _mm512_setzero_si512();
  }
  const auto add_products = [&](int64_t k, int64_t left) __attribute__((always_inline)) {
    Codes columns[kDotColumns];
    DLBLAS_UNROLL
    for (int c = 0; c < kDotColumns; ++c) {
      columns[c] = raised(load_codes(from[c] + k, 1, left));
      prefetch(from[c] + k + kDotColumns * b.col);
    }
    DLBLAS_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const Codes row = _mm512_loadu_si512(a + r * a_pitch + k);
      DLBLAS_UNROLL
      for (int c = 0; c < kDotColumns; ++c)
        sums[r][c] = _mm512_dpbusd_epi32(sums[r][c], columns[c], row);
    }
  };
  int64_t k = 0;
  for (; k + kBytes <= depth; k += kBytes) add_products(k, kBytes);
  if (k < depth) add_products(k, depth - k);
  DLBLAS_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const __m128i sum = add_lanes(sums[r][0], sums[r][1], sums[r][2], sums[r][3]);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + r * pitch),
                     _mm_add_epi32(sum, _mm_set1_epi32(starts[r])));
  }
}

using Dots = void (*)(const ScaledMatrix&, int64_t, int64_t, int64_t, int64_t, const int8_t*,
                      int64_t, const int32_t*, int32_t*, int64_t);
constexpr Dots kDots[kDotRows] = {multiply_dots<1>, multiply_dots<2>, multiply_dots<3>,
                                  multiply_dots<4>, multiply_dots<5>, multiply_dots<6>};

/// One span's sums for columns [j, j + columns); each panel is one row.
void multiply_columns(const ScaledJob& p, const VnniRows& rows, const VnniPart& part, int64_t k0,
                      int64_t depth, int64_t j, int64_t columns, int64_t pitch) {
  const int32_t* starts = rows.starts + k0 / kVnniSpan * rows.panels;
  for (int64_t c = 0; c < columns; c += kDotColumns) {
    for (int64_t i = part.p0; i < part.p1; i += kDotRows) {
      const int64_t height = smaller(kDotRows, part.p1 - i);
      kDots[height - 1](p.b, k0, depth, j + c, smaller(kDotColumns, columns - c),
                        rows.codes + i * rows.pitch + k0, rows.pitch, starts + i,
                        part.sums + (i - part.p0) * pitch + c, pitch);
    }
  }
}

/// Reorders 64 sums from the tiles' order to that of the columns.
DLBLAS_INLINE void put_in_order(const int32_t* from, int32_t* to) {
  const Codes a = _mm512_loadu_si512(from), b = _mm512_loadu_si512(from + 16);
  const Codes c = _mm512_loadu_si512(from + 32), d = _mm512_loadu_si512(from + 48);
  const Codes ab_even = _mm512_shuffle_i32x4(a, b, 0x88), ab_odd = _mm512_shuffle_i32x4(a, b, 0xdd);
  const Codes cd_even = _mm512_shuffle_i32x4(c, d, 0x88), cd_odd = _mm512_shuffle_i32x4(c, d, 0xdd);
  _mm512_storeu_si512(to, _mm512_shuffle_i32x4(ab_even, cd_even, 0x88));
  _mm512_storeu_si512(to + 16, _mm512_shuffle_i32x4(ab_odd, cd_odd, 0x88));
  _mm512_storeu_si512(to + 32, _mm512_shuffle_i32x4(ab_even, cd_even, 0xdd));
  _mm512_storeu_si512(to + 48, _mm512_shuffle_i32x4(ab_odd, cd_odd, 0xdd));
}

/// Calls f(row of the part, first column, columns that count, their sums) for panels [p0, p1): 64
/// columns at a time, row by row, as they are stored.
template <typename F>
DLBLAS_INLINE void each_row(const VnniRows& rows, const VnniPart& part, int64_t p0, int64_t p1,
                            int64_t columns, int64_t pitch, bool in_order, const F& f) {
  const int64_t first = part.p0 * rows.height, last = smaller(rows.count, p1 * rows.height);
  for (int64_t row = p0 * rows.height; row < last; ++row) {
    for (int64_t c = 0; c < columns; c += kVnniColumns) {
      const int32_t* sums = part.sums + (row - first) * pitch + c;
      int32_t ordered[kVnniColumns];
      if (!in_order) put_in_order(sums, ordered);
      f(row - first, c, smaller(kVnniColumns, columns - c), in_order ? sums : ordered);
    }
  }
}

/// All of K for columns [j, j + columns).
DLBLAS_OUTLINE void multiply_strip(const ScaledJob& p, const VnniConfig& config,
                                   const VnniRows& rows, const VnniPart& part, int64_t j,
                                   int64_t columns) {
  const int64_t pitch = (columns + kVnniColumns - 1) / kVnniColumns * kVnniColumns;
  const int64_t size = (part.p1 - part.p0) * rows.height * pitch;
  const bool many = p.k > kVnniSpan;
  for (int64_t x = 0; many && x < size; ++x) part.totals[x] = 0;
  for (int64_t x = 0; p.k == 0 && x < size; ++x) part.sums[x] = 0;
  float scales[kVnniMostColumns];
  load_scales(p, j, columns, scales);
  const auto finish = [&](int64_t p0, int64_t p1) {
    each_row(rows, part, p0, p1, columns, pitch, config.dots,
             [&](int64_t row, int64_t c, int64_t n, const int32_t* sums) {
               const int64_t i = rows.first + part.p0 * rows.height + row;
               if (many)
                 finish_row(p, i, j + c, n, scales + c, part.totals + row * pitch + c);
               else
                 finish_row(p, i, j + c, n, scales + c, sums);
             });
  };
  const bool at_once = !many && !config.dots && p.k > 0;  // a panel is finished after its last tile
  for (int64_t k = 0; k < p.k;) {
    const int64_t end = smaller(p.k, (k / kVnniSpan + 1) * kVnniSpan);
    const int64_t depth = config.dots ? end - k : smaller(config.depth, end - k);
    if (config.dots)
      multiply_columns(p, rows, part, k, depth, j, columns, pitch);
    else
      multiply_block(p, rows, part, k, depth, j, columns, pitch, [&](int64_t i) {
        if (at_once && k + depth == p.k) finish(i, i + 1);
      });
    k += depth;
    if (!many || k < end) continue;
    each_row(rows, part, part.p0, part.p1, columns, pitch, config.dots,
             [&](int64_t row, int64_t c, int64_t n, const int32_t* sums) {
               double* to = part.totals + row * pitch + c;
               for (int64_t x = 0; x < n; ++x) to[x] += static_cast<double>(sums[x]);
             });
  }
  if (!at_once) finish(part.p0, part.p1);
}

void multiply_part(const ScaledJob& p, const VnniConfig& config, const VnniRows& rows,
                   const VnniPart& part) {
  for (int64_t j = part.j0; j < part.j1; j += config.columns)
    multiply_strip(p, config, rows, part, j, smaller(config.columns, part.j1 - j));
}

void finish_rows(const ScaledJob& p, const int32_t* sums, int64_t i0, int64_t i1) {
  float scales[kStrip];
  for (int64_t j = 0; j < p.n; j += kStrip) {
    const int64_t n = smaller(kStrip, p.n - j);
    load_scales(p, j, n, scales);
    for (int64_t i = i0; i < i1; ++i) finish_row(p, i, j, n, scales, sums + i * p.n + j);
  }
}

}  // namespace

constinit const gemm::scaled::VnniCode kVnniCode = {pack_codes, multiply_part, finish_rows};

}  // namespace dlblas::avx512
// NOLINTEND(google-build-namespaces)
