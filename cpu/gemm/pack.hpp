// Packing for matrix products: strided f32, f16 or bf16 becomes panels of f32, the only layout that
// register tiles read. A panel holds `width` lanes (rows of a, columns of b) side by side for each
// depth k. In: a matrix block with any strides. Out: panel p at p · width · depth, zeros past the
// last lane. Compiled once per instruction set, with cpu/simd.hpp. Read next: mainloop.hpp.
#pragma once

#include "cpu/gemm/job.hpp"
#include "cpu/simd.hpp"

namespace dlblas::DLBLAS_ISA {
namespace {

DLBLAS_INLINE constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/// kWidth × kWidth transpose in registers.
DLBLAS_INLINE void transpose(Vec (&r)[kWidth]) {
  Vec t[kWidth];
#if defined(__AVX512F__)
  for (int i = 0; i < 16; i += 4) {  // 4×4 blocks within the 128-bit parts
    const Vec ab_lo = _mm512_unpacklo_ps(r[i], r[i + 1]),
              ab_hi = _mm512_unpackhi_ps(r[i], r[i + 1]);
    const Vec cd_lo = _mm512_unpacklo_ps(r[i + 2], r[i + 3]);
    const Vec cd_hi = _mm512_unpackhi_ps(r[i + 2], r[i + 3]);
    t[i] = _mm512_shuffle_ps(ab_lo, cd_lo, 0x44);
    t[i + 1] = _mm512_shuffle_ps(ab_lo, cd_lo, 0xee);
    t[i + 2] = _mm512_shuffle_ps(ab_hi, cd_hi, 0x44);
    t[i + 3] = _mm512_shuffle_ps(ab_hi, cd_hi, 0xee);
  }
  for (int i = 0; i < 4; ++i) {  // then the parts themselves, a 4×4 transpose of 128-bit blocks
    const Vec lo = _mm512_shuffle_f32x4(t[i], t[i + 4], 0x88);
    const Vec hi = _mm512_shuffle_f32x4(t[i], t[i + 4], 0xdd);
    const Vec lo2 = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0x88);
    const Vec hi2 = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0xdd);
    r[i] = _mm512_shuffle_f32x4(lo, lo2, 0x88);
    r[i + 4] = _mm512_shuffle_f32x4(hi, hi2, 0x88);
    r[i + 8] = _mm512_shuffle_f32x4(lo, lo2, 0xdd);
    r[i + 12] = _mm512_shuffle_f32x4(hi, hi2, 0xdd);
  }
#elif defined(__AVX2__)
  for (int i = 0; i < 8; i += 4) {
    const Vec ab_lo = _mm256_unpacklo_ps(r[i], r[i + 1]),
              ab_hi = _mm256_unpackhi_ps(r[i], r[i + 1]);
    const Vec cd_lo = _mm256_unpacklo_ps(r[i + 2], r[i + 3]);
    const Vec cd_hi = _mm256_unpackhi_ps(r[i + 2], r[i + 3]);
    t[i] = _mm256_shuffle_ps(ab_lo, cd_lo, 0x44);
    t[i + 1] = _mm256_shuffle_ps(ab_lo, cd_lo, 0xee);
    t[i + 2] = _mm256_shuffle_ps(ab_hi, cd_hi, 0x44);
    t[i + 3] = _mm256_shuffle_ps(ab_hi, cd_hi, 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x20);
    r[i + 4] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x31);
  }
#else
  for (int i = 0; i < kWidth; ++i) t[i] = r[i];
  for (int i = 0; i < kWidth; ++i) {
    for (int j = 0; j < kWidth; ++j) r[i][j] = t[j][i];
  }
#endif
}

/// The first n lanes in memory order; n may be zero or negative.
template <DType E>
DLBLAS_INLINE Vec load_first(const void* p, int64_t n) {
  if (n >= kWidth) return load<E>(p);
  return n > 0 ? load_partial<E>(p, static_cast<int>(n)) : zero();
}

/// Lanes contiguous in memory. A width that is not a multiple of kWidth spills zeros into the next
/// depth (which overwrites them) and at the end into the next panel or the buffer's slack.
template <DType E>
void pack_straight(const PackSource& s, int64_t lanes, int64_t k0, int64_t k1, int width,
                   float* to) {
  for (int64_t k = k0; k < k1; ++k) {
    const char* from = at<E>(s.data, k * s.depth);
    for (int v = 0; v < width; v += kWidth) {
      store<DType::kF32>(to + k * width + v, load_first<E>(at<E>(from, v), lanes - v));
    }
  }
}

/// Depth contiguous in memory: transposes blocks of kWidth × kWidth in registers. Lane groups go
/// from the last to the first, so that what a ragged group spills is overwritten by the next
/// depth's first group.
template <DType E>
void pack_transposed(const PackSource& s, int64_t lanes, int64_t depth, int width, float* to) {
  const int last_group = (width - 1) / kWidth * kWidth;
  for (int64_t k = 0; k < depth; k += kWidth) {
    const int64_t depths = smaller(kWidth, depth - k);
    for (int g = last_group; g >= 0; g -= kWidth) {
      Vec r[kWidth];
      for (int i = 0; i < kWidth; ++i) {
        r[i] = g + i < lanes ? load_first<E>(at<E>(s.data, (g + i) * s.lane + k), depths) : zero();
      }
      transpose(r);
      for (int i = 0; i < depths; ++i) store<DType::kF32>(to + (k + i) * width + g, r[i]);
    }
  }
}

/// Any strides, element by element: broadcast, negative and doubly strided operands.
template <DType E>
void pack_strided(const PackSource& s, int64_t lanes, int64_t depth, int width, float* to) {
  for (int64_t k = 0; k < depth; ++k) {
    for (int i = 0; i < width; ++i) {
      const char* from = at<E>(s.data, i * s.lane + k * s.depth);
      to[k * width + i] = i < lanes ? load_partial<E>(from, 1)[0] : 0.0f;
    }
  }
}

template <DType E>
void pack_elements(const PackSource& s, int64_t lanes, int64_t depth, int width, float* to) {
  // Panels of whole vectors are filled 8 depths at a time, side by side: 8 sequential input streams
  // instead of a jump of one row every 128 bytes.
  const bool side_by_side = s.lane == 1 && width % kWidth == 0;
  const int64_t step = side_by_side ? 8 : depth;
  for (int64_t k = 0; k < depth; k += step) {
    for (int64_t p = 0; p < lanes; p += width) {
      const PackSource panel{at<E>(s.data, p * s.lane), s.lane, s.depth};
      float* out = to + p * depth;
      if (s.lane == 1) {
        pack_straight<E>(panel, lanes - p, k, smaller(depth, k + step), width, out);
      } else if (s.depth == 1) {
        pack_transposed<E>(panel, lanes - p, depth, width, out);
      } else {
        pack_strided<E>(panel, lanes - p, depth, width, out);
      }
    }
  }
}

/// Packs `lanes` × `depth` elements into panels of `width`; writes up to kPackSlack values past the
/// end.
DLBLAS_INLINE void pack(DType type, const PackSource& s, int64_t lanes, int64_t depth, int width,
                        float* to) {
  if (type == DType::kF32) return pack_elements<DType::kF32>(s, lanes, depth, width, to);
  if (type == DType::kF16) return pack_elements<DType::kF16>(s, lanes, depth, width, to);
  pack_elements<DType::kBF16>(s, lanes, depth, width, to);
}

/// The address of element (row, col) of a matrix.
DLBLAS_INLINE char* address(const GemmMatrix& m, int64_t row, int64_t col) {
  const int64_t element = row * m.row + col * m.col;
  const bool pairs = m.type == DType::kF16 || m.type == DType::kBF16;
  return static_cast<char*>(m.data) + element * (m.type == DType::kF32 ? 4 : pairs ? 2 : 1);
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
