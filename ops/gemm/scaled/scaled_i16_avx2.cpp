// The i8 product with row and column scales for AVX2: codes become i16, and vpmaddwd adds two
// products to an i32. Exact: a span's whole sum fits i32, and spans are added in f64.
//
//   tiles   b packed a block at a time, [K / 2][16 columns][2]; up to 6 rows × 16 columns
//   dots    b's columns are contiguous along K, and not packed: 2 rows × 4 columns × 16 terms
//
// The suffix of the file name selects its build flags. Everything but the table below has internal
// linkage: see cpu/simd.hpp for why. Read next: scaled_i16.cpp, scaled_finish.hpp.
#include "ops/gemm/scaled/scaled_finish.hpp"
#include "ops/gemm/scaled/scaled_i16_config.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::avx2 {
namespace {

using gemm::scaled::I16Config;
using gemm::scaled::I16Part;
using gemm::scaled::I16Rows;
using gemm::scaled::kI16Columns;
using gemm::scaled::kI16MostColumns;
using gemm::scaled::kI16Rows;
using gemm::scaled::kI16Span;

using Codes = __m256i;          // 16 of i16, or 8 sums
constexpr int64_t kCodes = 16;  // read at a time, along a row or a column
constexpr int kDotRows = 2, kDotColumns = 4;

DLBLAS_INLINE __m128i load_whole(const void* from) {
  return _mm_loadu_si128(static_cast<const __m128i*>(from));
}
/// n codes, at most 16, that are `stride` bytes apart; the other bytes are zero.
DLBLAS_INLINE __m128i load_bytes(const uint8_t* from, int64_t stride, int64_t n) {
  if (stride == 1 && n >= kCodes) return load_whole(from);
  alignas(16) uint8_t codes[kCodes] = {};
  for (int64_t i = 0; i < smaller(n, kCodes); ++i) codes[i] = from[i * stride];
  return _mm_load_si128(reinterpret_cast<const __m128i*>(codes));
}
DLBLAS_INLINE Codes load_vector(const int16_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const Codes*>(from));
}
DLBLAS_INLINE void store_vector(void* to, Codes codes) {
  _mm256_storeu_si256(static_cast<Codes*>(to), codes);
}
DLBLAS_INLINE Codes add_products(Codes sums, Codes a, Codes b) {
  return _mm256_add_epi32(sums, _mm256_madd_epi16(a, b));
}

/// Packs a's codes of panels [p0, p1).
void pack_codes(const ScaledJob& p, const I16Rows& rows, int64_t p0, int64_t p1) {
  const int64_t height = rows.height;
  for (int64_t row = p0 * height; row < p1 * height; ++row) {
    int16_t* to = rows.codes + row / height * height * rows.pitch + row % height * 2;
    for (int64_t k = 0; k < rows.pitch; k += kCodes) {
      const bool there = row < rows.count && k < p.k;
      const Codes codes = _mm256_cvtepi8_epi16(
          there ? load_bytes(code_at(p.a, rows.first + row, k), p.a.col, p.k - k)
                : _mm_setzero_si128());
      if (height == 1) {
        store_vector(to + k, codes);
        continue;
      }
      alignas(32) int32_t pairs[kCodes / 2];
      store_vector(pairs, codes);
      for (int64_t i = 0; i < kCodes / 2; ++i)
        __builtin_memcpy(to + (k + 2 * i) * height, pairs + i, 4);
    }
  }
}

/// Packs b by rows, or with any strides: interleaves two of K × 16 columns at a time. `depth` is
/// padded to pairs.
DLBLAS_OUTLINE void pack_rows_of_b(const ScaledMatrix& b, int64_t k0, int64_t depth, int64_t j,
                                   int64_t columns, int16_t* to) {
  const int64_t pitch = (depth + 1) / 2 * 2 * kI16Columns;  // of a group of 16 columns
  for (int64_t k = 0; k < depth; k += 2) {
    for (int64_t c = 0; c < columns; c += kI16Columns) {
      const __m128i even = load_bytes(code_at(b, k0 + k, j + c), b.col, columns - c);
      const __m128i odd = k + 1 < depth
                              ? load_bytes(code_at(b, k0 + k + 1, j + c), b.col, columns - c)
                              : _mm_setzero_si128();
      int16_t* const at = to + c / kI16Columns * pitch + k * kI16Columns;
      store_vector(at, _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(even, odd)));
      store_vector(at + kCodes, _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(even, odd)));
    }
  }
}

/// Transposes 8 × 8 pairs of codes.
DLBLAS_INLINE void transpose_pairs(__m128i (&r)[8]) {
  __m128i two[8], four[8];
  DLBLAS_UNROLL
  for (int i = 0; i < 4; ++i) {
    two[2 * i] = _mm_unpacklo_epi16(r[2 * i], r[2 * i + 1]);
    two[2 * i + 1] = _mm_unpackhi_epi16(r[2 * i], r[2 * i + 1]);
  }
  DLBLAS_UNROLL
  for (int i = 0; i < 2; ++i) {
    DLBLAS_UNROLL
    for (int half = 0; half < 2; ++half) {
      const __m128i low = two[4 * i + half], high = two[4 * i + 2 + half];
      four[4 * i + 2 * half] = _mm_unpacklo_epi32(low, high);
      four[4 * i + 2 * half + 1] = _mm_unpackhi_epi32(low, high);
    }
  }
  DLBLAS_UNROLL
  for (int i = 0; i < 4; ++i) {
    r[2 * i] = _mm_unpacklo_epi64(four[i], four[4 + i]);
    r[2 * i + 1] = _mm_unpackhi_epi64(four[i], four[4 + i]);
  }
}

/// Packs columns of b that are contiguous along K: transposes 16 of K × 8 columns at a time, in
/// pairs.
DLBLAS_OUTLINE void pack_columns_of_b(const ScaledMatrix& b, int64_t k0, int64_t depth, int64_t j,
                                      int64_t columns, int16_t* to) {
  const int64_t pitch = (depth + 1) / 2 * 2 * kI16Columns;
  for (int64_t c = 0; c < columns; c += 8) {
    for (int64_t k = 0; k < depth; k += kCodes) {
      __m128i r[8];
      for (int i = 0; i < 8; ++i) {
        r[i] = c + i < columns ? load_bytes(code_at(b, k0 + k, j + c + i), 1, depth - k)
                               : _mm_setzero_si128();
      }
      transpose_pairs(r);
      int16_t* const at = to + c / kI16Columns * pitch + k * kI16Columns + c % kI16Columns * 2;
      for (int i = 0; i < 8 && k + 2 * i < depth; ++i)
        store_vector(at + 2 * i * kI16Columns, _mm256_cvtepi8_epi16(r[i]));
    }
  }
}

/// kRows rows × 16 columns of sums, which start at zero or continue.
template <int kRows>
DLBLAS_OUTLINE void multiply_tile(const int16_t* a, const int16_t* b, int64_t steps, bool first,
                                  int32_t* to, int64_t pitch) {
  Codes sums[kRows][2];
  DLBLAS_UNROLL
  for (int r = 0; r < kRows; ++r) {
    DLBLAS_UNROLL
    for (int v = 0; v < 2; ++v)
      sums[r][v] = first ? _mm256_setzero_si256()
                         : _mm256_loadu_si256(reinterpret_cast<Codes*>(to + r * pitch + v * 8));
  }
  for (int64_t k = 0; k < steps; ++k) {
    const Codes low = load_vector(b), high = load_vector(b + kCodes);
    DLBLAS_UNROLL
    for (int r = 0; r < kRows; ++r) {
      int32_t pair;
      __builtin_memcpy(&pair, a + 2 * r, 4);
      const Codes x = _mm256_set1_epi32(pair);
      sums[r][0] = add_products(sums[r][0], x, low);
      sums[r][1] = add_products(sums[r][1], x, high);
    }
    a += 2 * kRows, b += 2 * kI16Columns;
  }
  DLBLAS_UNROLL
  for (int r = 0; r < kRows; ++r) {
    DLBLAS_UNROLL
    for (int v = 0; v < 2; ++v) store_vector(to + r * pitch + v * 8, sums[r][v]);
  }
}

using Tile = void (*)(const int16_t*, const int16_t*, int64_t, bool, int32_t*, int64_t);
constexpr Tile kTiles[kI16Rows] = {multiply_tile<1>, multiply_tile<2>, multiply_tile<3>,
                                   multiply_tile<4>, multiply_tile<5>, multiply_tile<6>};

/// Packs [k0, k0 + depth) × [j, j + columns) of b, and adds its products to the part's sums.
void multiply_block(const ScaledJob& p, const I16Rows& rows, const I16Part& part, int64_t k0,
                    int64_t depth, int64_t j, int64_t columns, int64_t pitch) {
  if (p.b.row == 1 && p.b.col != 1)
    pack_columns_of_b(p.b, k0, depth, j, columns, part.b);
  else
    pack_rows_of_b(p.b, k0, depth, j, columns, part.b);
  const int64_t steps = (depth + 1) / 2;
  const Tile tile = kTiles[rows.height - 1];
  for (int64_t i = part.p0; i < part.p1; ++i) {
    const int64_t row = i * rows.height;
    for (int64_t c = 0; c < columns; c += kI16Columns) {
      tile(rows.codes + row * rows.pitch + k0 * rows.height, part.b + c * 2 * steps, steps,
           k0 % kI16Span == 0, part.sums + (row - part.p0 * rows.height) * pitch + c, pitch);
    }
  }
}

/// kRows rows × four columns of b, of which n count.
template <int kRows>
DLBLAS_OUTLINE void multiply_dots(const ScaledMatrix& b, int64_t k0, int64_t depth, int64_t j,
                                  int64_t n, const int16_t* a, int64_t a_pitch, int32_t* to,
                                  int64_t pitch) {
  Codes sums[kRows][kDotColumns];
  const uint8_t* from[kDotColumns];
  DLBLAS_UNROLL
  for (int c = 0; c < kDotColumns; ++c) {
    from[c] = code_at(b, k0, j + smaller(c, n - 1));
    DLBLAS_UNROLL
    for (int r = 0; r < kRows; ++r) sums[r][c] = _mm256_setzero_si256();
  }
  const auto add_terms = [&](int64_t k, int64_t left) __attribute__((always_inline)) {
    Codes columns[kDotColumns];
    DLBLAS_UNROLL
    for (int c = 0; c < kDotColumns; ++c)
      columns[c] = _mm256_cvtepi8_epi16(load_bytes(from[c] + k, 1, left));
    DLBLAS_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const Codes row = load_vector(a + r * a_pitch + k);
      DLBLAS_UNROLL
      for (int c = 0; c < kDotColumns; ++c) sums[r][c] = add_products(sums[r][c], row, columns[c]);
    }
  };
  int64_t k = 0;
  for (; k + 64 <= depth; k += 64) {
    DLBLAS_UNROLL
    for (int c = 0; c < kDotColumns; ++c) prefetch(from[c] + k + kDotColumns * b.col);
    for (int part = 0; part < 4; ++part) add_terms(k + part * kCodes, kCodes);
  }
  for (; k + kCodes <= depth; k += kCodes) add_terms(k, kCodes);
  if (k < depth) add_terms(k, depth - k);
  DLBLAS_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const Codes all = _mm256_hadd_epi32(_mm256_hadd_epi32(sums[r][0], sums[r][1]),
                                        _mm256_hadd_epi32(sums[r][2], sums[r][3]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + r * pitch),
                     _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1)));
  }
}

using Dots = void (*)(const ScaledMatrix&, int64_t, int64_t, int64_t, int64_t, const int16_t*,
                      int64_t, int32_t*, int64_t);
constexpr Dots kDots[kDotRows] = {multiply_dots<1>, multiply_dots<2>};

/// One span's sums for columns [j, j + columns); each panel is one row.
void multiply_columns(const ScaledJob& p, const I16Rows& rows, const I16Part& part, int64_t k0,
                      int64_t depth, int64_t j, int64_t columns, int64_t pitch) {
  for (int64_t c = 0; c < columns; c += kDotColumns) {
    for (int64_t i = part.p0; i < part.p1; i += kDotRows) {
      const int64_t height = smaller(kDotRows, part.p1 - i);
      kDots[height - 1](p.b, k0, depth, j + c, smaller(kDotColumns, columns - c),
                        rows.codes + i * rows.pitch + k0, rows.pitch,
                        part.sums + (i - part.p0) * pitch + c, pitch);
    }
  }
}

/// All of K for columns [j, j + columns).
DLBLAS_OUTLINE void multiply_strip(const ScaledJob& p, const I16Config& config, const I16Rows& rows,
                                   const I16Part& part, int64_t j, int64_t columns) {
  const int64_t pitch = (columns + kI16Columns - 1) / kI16Columns * kI16Columns;
  const int64_t size = (part.p1 - part.p0) * rows.height * pitch;
  const bool many = p.k > kI16Span;
  for (int64_t x = 0; many && x < size; ++x) part.totals[x] = 0;
  for (int64_t x = 0; p.k == 0 && x < size; ++x) part.sums[x] = 0;
  for (int64_t k = 0; k < p.k;) {
    const int64_t end = smaller(p.k, (k / kI16Span + 1) * kI16Span);
    const int64_t depth = config.dots ? end - k : smaller(config.depth, end - k);
    if (config.dots)
      multiply_columns(p, rows, part, k, depth, j, columns, pitch);
    else
      multiply_block(p, rows, part, k, depth, j, columns, pitch);
    k += depth;
    for (int64_t x = 0; many && k == end && x < size; ++x)
      part.totals[x] += static_cast<double>(part.sums[x]);
  }
  float scales[kI16MostColumns];
  load_scales(p, j, columns, scales);
  const int64_t first = part.p0 * rows.height, last = smaller(rows.count, part.p1 * rows.height);
  for (int64_t row = first; row < last; ++row) {
    for (int64_t c = 0; c < columns; c += kStrip) {
      const int64_t n = smaller(kStrip, columns - c), at = (row - first) * pitch + c;
      if (many)
        finish_row(p, rows.first + row, j + c, n, scales + c, part.totals + at);
      else
        finish_row(p, rows.first + row, j + c, n, scales + c, part.sums + at);
    }
  }
}

void multiply_part(const ScaledJob& p, const I16Config& config, const I16Rows& rows,
                   const I16Part& part) {
  for (int64_t j = part.j0; j < part.j1; j += config.columns)
    multiply_strip(p, config, rows, part, j, smaller(config.columns, part.j1 - j));
}

}  // namespace

constinit const gemm::scaled::I16Code kI16Code = {pack_codes, multiply_part};

}  // namespace dlblas::avx2
// NOLINTEND(google-build-namespaces)
