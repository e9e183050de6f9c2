// The scaled products on CPUs: sums of 128 of K in f32, which is exact for i8, are scaled and
// accumulated in f64. In: codes of any strides, and a table of their values. Out: rows and columns
// of the result, one rounding to f32 before the store's.
// Compiled once per instruction set.  Read next: scaled_finish.hpp, scaled_cpu.cpp.
#pragma once

#include "ops/gemm/scaled/scaled_depth.hpp"
#include "ops/gemm/scaled/scaled_finish.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

using gemm::scaled::DepthJob;
using gemm::scaled::kGroup;
using gemm::scaled::ScaledPart;

/// The values of kWidth contiguous codes of a type.
DLBLAS_INLINE Vec load_codes(const float* values, DType type, const uint8_t* codes) {
#if defined(__AVX512F__)
  (void)type;
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
  return _mm512_i32gather_ps(_mm512_cvtepu8_epi32(bytes), values, 4);
#elif defined(__AVX2__)  // a gather takes four times as long (Zen 3)
  (void)values;
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes));
  if (type == DType::kI8) return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
  const __m128i wide = _mm_cvtepu8_epi16(bytes);
  if (type == DType::kF8E5M2) return _mm256_cvtph_ps(_mm_slli_epi16(wide, 8));
  // e4m3 as f16, whose exponent's bias is 8 more; the codes without a value have f16's exponent of
  // NaN.
  const __m128i magnitude = _mm_and_si128(wide, _mm_set1_epi16(0x7f));
  const __m128i sign = _mm_slli_epi16(_mm_xor_si128(wide, magnitude), 8);
  const __m128i none =
      _mm_and_si128(_mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x7f)), _mm_set1_epi16(0x7e00));
  const __m128i half = _mm_or_si128(_mm_or_si128(_mm_slli_epi16(magnitude, 7), sign), none);
  return _mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(256.0f));
#else
  (void)type;
  float lanes[kWidth];
  for (int i = 0; i < kWidth; ++i) lanes[i] = values[codes[i]];
  return load<DType::kF32>(lanes);
#endif
}
/// The values of the first n codes, n > 0; the other lanes are 0, the value of code 0.
DLBLAS_INLINE Vec load_first_codes(const float* values, DType type, const uint8_t* codes,
                                   int64_t n) {
  if (n >= kWidth) return load_codes(values, type, codes);
  uint8_t some[kWidth] = {};
  for (int64_t i = 0; i < n; ++i) some[i] = codes[i];
  return load_codes(values, type, some);
}

/// Stores codes [row, row + rows) × [col, col + cols) as f32 at to[r · pitch + c]. `to` has room
/// for whole vectors of rows and of columns.
DLBLAS_OUTLINE void widen_codes(const float* values, const ScaledMatrix& m, int64_t row,
                                int64_t col, int64_t rows, int64_t cols, float* to, int64_t pitch) {
  if (m.col == 1) {
    for (int64_t r = 0; r < rows; ++r) {
      const uint8_t* from = code_at(m, row + r, col);
      for (int64_t c = 0; c < cols; c += kWidth)
        store<DType::kF32>(to + r * pitch + c,
                           load_first_codes(values, m.type, from + c, cols - c));
    }
  } else if (m.row == 1) {  // squares turn in registers
    for (int64_t c = 0; c < cols; c += kWidth) {
      for (int64_t r = 0; r < rows; r += kWidth) {
        Vec v[kWidth];
        for (int i = 0; i < kWidth; ++i)
          v[i] = c + i < cols
                     ? load_first_codes(values, m.type, code_at(m, row + r, col + c + i), rows - r)
                     : zero();
        transpose(v);
        for (int i = 0; i < kWidth; ++i) store<DType::kF32>(to + (r + i) * pitch + c, v[i]);
      }
    }
  } else {
    for (int64_t r = 0; r < rows; ++r) {
      const uint8_t* from = code_at(m, row + r, col);
      for (int64_t c = 0; c < cols; ++c) to[r * pitch + c] = values[from[c * m.col]];
    }
  }
}

/// Products of kRows rows of a, [row][kGroup], and kVectors vectors of b, [depth][kStrip], summed
/// over `depth`.
template <int kRows, int kVectors>
DLBLAS_INLINE void multiply_tile(const float* a, const float* b, int64_t depth, float* to) {
  Vec sums[kRows][kVectors];
  DLBLAS_UNROLL
  for (int r = 0; r < kRows; ++r) {
    DLBLAS_UNROLL
    for (int v = 0; v < kVectors; ++v) sums[r][v] = zero();
  }
  for (int64_t k = 0; k < depth; ++k) {
    Vec column[kVectors];
    DLBLAS_UNROLL
    for (int v = 0; v < kVectors; ++v) column[v] = load<DType::kF32>(b + k * kStrip + v * kWidth);
    DLBLAS_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const Vec x = broadcast(a[r * kGroup + k]);
      DLBLAS_UNROLL
      for (int v = 0; v < kVectors; ++v) sums[r][v] = fma(x, column[v], sums[r][v]);
    }
  }
  DLBLAS_UNROLL
  for (int r = 0; r < kRows; ++r) {
    DLBLAS_UNROLL
    for (int v = 0; v < kVectors; ++v)
      store<DType::kF32>(to + (r * kVectors + v) * kWidth, sums[r][v]);
  }
}

/// One group of K, for some rows and a strip of columns: `total` += factor · sums. `scales`: the
/// columns' scales, where each has its own.
template <int kRows, bool kDepth>
DLBLAS_OUTLINE void multiply_rows(const ScaledJob& p, int64_t i, int64_t rows, int64_t j,
                                  int64_t group, int64_t depth, const float* a, const float* b,
                                  const float* scales, double* total) {
  constexpr int kVectors = kWidth >= 16 ? 4 : 2, kColumns = kVectors * kWidth;
  float sums[kRows * kColumns];
  for (int64_t c = 0; c < kStrip && j + c < p.n; c += kColumns) {
    multiply_tile<kRows, kVectors>(a, b + c, depth, sums);
    for (int64_t r = 0; r < rows; ++r) {
      double* to = total + r * kStrip + c;
      if constexpr (kDepth) {
        const float scale = scale_at(p.a_scale, i + r, group);
        for (int x = 0; x < kColumns; ++x)
          to[x] += static_cast<double>(scale * scales[c + x]) *
                   static_cast<double>(sums[r * kColumns + x]);
      } else {
        const float factor = p.blocks ? scale_at(p.a_scale, i + r, group) *
                                            scale_at(p.b_scale, group, (j + c) / kGroup)
                                      : 1.0f;
        for (int x = 0; x < kColumns; ++x)
          to[x] += static_cast<double>(factor) * static_cast<double>(sums[r * kColumns + x]);
      }
    }
  }
}

/// kDepth: p is a DepthJob.
template <bool kDepth>
void scaled_run(const ScaledJob& p, const ScaledPart& part, void* scratch) {
  int64_t skipped = 0;
  if constexpr (kDepth) skipped = static_cast<const DepthJob&>(p).skipped;
  auto* const total = static_cast<double*>(scratch);
  auto* const b = reinterpret_cast<float*>(total + part.rows * kStrip);
  float* const a = b + kStrip * kGroup;
  float scales[kStrip] = {};
  for (int64_t j = part.j0; j < part.j1; j += kStrip) {
    const int64_t columns = smaller(kStrip, part.j1 - j);
    if (!p.blocks) load_scales(p, j, columns, scales);
    for (int64_t i0 = part.i0; i0 < part.i1; i0 += part.rows) {
      const int64_t rows = smaller(part.rows, part.i1 - i0);
      for (int64_t x = 0; x < rows * kStrip; ++x) total[x] = 0;
      for (int64_t start = -skipped; start < p.k; start += kGroup) {
        const int64_t k = start < 0 ? 0 : start, depth = smaller(start + kGroup, p.k) - k;
        const int64_t group = (start + skipped) / kGroup;
        for (int64_t c = 0; kDepth && c < columns; ++c)
          scales[c] = scale_at(p.b_scale, group, j + c);
        widen_codes(p.values, p.b, k, j, depth, columns, b, kStrip);
        for (int64_t d = 0; columns < kStrip && d < depth; ++d) {
          for (int64_t c = columns; c < kStrip; ++c) b[d * kStrip + c] = 0;
        }
        widen_codes(p.values, p.a, i0, k, rows, depth, a, kGroup);
        for (int64_t r = rows; r % 4 != 0; ++r) {
          for (int64_t d = 0; d < depth; ++d) a[r * kGroup + d] = 0;
        }
        for (int64_t r = 0; r < rows; r += 4) {
          const int64_t left = smaller(4, rows - r);
          const float* from = a + r * kGroup;
          double* const to = total + r * kStrip;
          if (left == 1)
            multiply_rows<1, kDepth>(p, i0 + r, 1, j, group, depth, from, b, scales, to);
          else
            multiply_rows<4, kDepth>(p, i0 + r, left, j, group, depth, from, b, scales, to);
        }
      }
      for (int64_t r = 0; r < rows; ++r)
        finish_row(p, i0 + r, j, columns, p.blocks ? nullptr : scales, total + r * kStrip);
    }
  }
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
