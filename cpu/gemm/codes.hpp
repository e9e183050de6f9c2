// 8-bit codes as operands of pairs.hpp: f8 becomes bf16, exactly, while it is packed; i8 is
// multiplied as is, in fours, with i32 sums. In: strided codes. Out: packed chunks; cores of
// cpu/gemm/mainloop.hpp.
// Numerics: i8 is exact: spans of K whose sums fit i32 are added in two floats that hold 48 bits.
// Compiled only for x86 with AVX512_BF16; i8 with AMX. Read next: pairs.hpp.
#pragma once

#include "cpu/gemm/pairs.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

/// Contiguous codes, those of the mask; zeros elsewhere.
DLBLAS_INLINE __m128i load_16_codes(const uint8_t* from, __mmask16 lanes) {
  return _mm_maskz_loadu_epi8(lanes, from);
}
DLBLAS_INLINE Chunk load_64_codes(const uint8_t* from, __mmask64 lanes) {
  return _mm512_maskz_loadu_epi8(lanes, from);
}

/// How the fields of an f8 map to bf16: the exponent's bias moves by `kBias`. Codes with the
/// smallest or largest exponent, ignoring signs, are those below kSpecial after kFirst is added
/// (modulo 128); their values come from a table of 32, by the code's lower five bits.
template <DType kType>
struct F8Format;
template <>
struct F8Format<DType::kF8E4M3> {
  static constexpr int kShift = 4, kBias = 120 << 7, kFirst = 1, kSpecial = 9;
  static constexpr uint16_t kValues[32] = {
      0, 0x3b00, 0x3b80, 0x3bc0, 0x3c00, 0x3c20, 0x3c40, 0x3c60, 0, 0, 0, 0, 0, 0, 0, 0,
      0, 0,      0,      0,      0,      0,      0,      0,      0, 0, 0, 0, 0, 0, 0, 0x7fc0};
};
template <>
struct F8Format<DType::kF8E5M2> {
  static constexpr int kShift = 5, kBias = 112 << 7, kFirst = 4, kSpecial = 8;
  static constexpr uint16_t kValues[32] = {
      0, 0x3780, 0x3800, 0x3840, 0, 0, 0, 0, 0, 0, 0, 0, 0,      0,      0,      0,
      0, 0,      0,      0,      0, 0, 0, 0, 0, 0, 0, 0, 0x7f80, 0x7fc0, 0x7fc0, 0x7fc0};
};

/// 32 codes of f8 as bf16.
template <DType kType>
DLBLAS_INLINE Chunk bf16_of(__m256i codes) {
  using F = F8Format<kType>;
  const __m256i magnitude = _mm256_set1_epi8(0x7f);
  const __m256i moved =
      _mm256_and_si256(_mm256_add_epi8(codes, _mm256_set1_epi8(F::kFirst)), magnitude);
  const __mmask32 special = _mm256_cmplt_epu8_mask(moved, _mm256_set1_epi8(F::kSpecial));
  const Chunk wide = _mm512_cvtepu8_epi16(codes);
  const Chunk bits =
      _mm512_and_si512(_mm512_slli_epi16(wide, F::kShift), _mm512_set1_epi16(0x7f << F::kShift));
  const Chunk plain = _mm512_add_epi16(bits, _mm512_set1_epi16(F::kBias));
  const Chunk values = _mm512_loadu_si512(F::kValues);
  const Chunk all = _mm512_mask_permutexvar_epi16(plain, special, wide, values);
  constexpr int kSign = 0xf8;  // a | (b & c)
  return _mm512_ternarylogic_epi32(all, _mm512_slli_epi16(wide, 8),
                                   _mm512_set1_epi16(static_cast<int16_t>(0x8000)), kSign);
}

template <DType kType>
struct F8Terms {
  using Element = uint8_t;
  static constexpr int kGroup = 2, kTerms = 32;
  static constexpr bool kAsStored = false, kIntegers = false;

  static Chunk load(const Element* from, int64_t n) {
    __m256i codes = _mm256_setzero_si256();
    if (n >= kTerms)
      codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    else if (n > 0)
      codes = _mm256_maskz_loadu_epi8(~uint32_t{0} >> (kTerms - n), from);
    return bf16_of<kType>(codes);
  }
  static Chunk load_lanes(const Element* from, int64_t depth, __mmask16 lanes, int64_t n) {
    const __m128i even = load_16_codes(from, n > 0 ? lanes : static_cast<__mmask16>(0));
    const __m128i odd = load_16_codes(from + depth, n > 1 ? lanes : static_cast<__mmask16>(0));
    return bf16_of<kType>(
        _mm256_set_m128i(_mm_unpackhi_epi8(even, odd), _mm_unpacklo_epi8(even, odd)));
  }
  /// Like load_lanes, for 64 lanes.
  static void load_many(const Element* from, int64_t depth, __mmask64 lanes, int64_t n,
                        Chunk (&r)[4]) {
    const Chunk even = load_64_codes(from, n > 0 ? lanes : 0);
    const Chunk odd = load_64_codes(from + depth, n > 1 ? lanes : 0);
    const Chunk low = _mm512_unpacklo_epi8(even, odd), high = _mm512_unpackhi_epi8(even, odd);
    // `low` holds the first eight of each 16 lanes, `high` the others.
    const Chunk first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const Chunk second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    const Chunk half[2] = {_mm512_permutex2var_epi64(low, first, high),
                           _mm512_permutex2var_epi64(low, second, high)};
    DLBLAS_UNROLL
    for (int i = 0; i < 2; ++i) {
      r[2 * i] = bf16_of<kType>(_mm512_castsi512_si256(half[i]));
      r[2 * i + 1] = bf16_of<kType>(_mm512_extracti64x4_epi64(half[i], 1));
    }
  }
};

/// Codes of i8; a group has four.
struct I8Terms {
  using Element = uint8_t;
  static constexpr int kGroup = 4, kTerms = 64;
  static constexpr bool kAsStored = true, kIntegers = true;

  static Chunk load(const Element* from, int64_t n) {
    if (n >= kTerms) return _mm512_loadu_si512(from);
    return n > 0 ? _mm512_maskz_loadu_epi8(~uint64_t{0} >> (kTerms - n), from)
                 : _mm512_setzero_si512();
  }
  static Chunk load_lanes(const Element* from, int64_t depth, __mmask16 lanes, int64_t n) {
    __m128i r[kGroup];
    DLBLAS_UNROLL
    for (int k = 0; k < kGroup; ++k)
      r[k] = load_16_codes(from + k * depth, k < n ? lanes : static_cast<__mmask16>(0));
    const __m128i low01 = _mm_unpacklo_epi8(r[0], r[1]), high01 = _mm_unpackhi_epi8(r[0], r[1]);
    const __m128i low23 = _mm_unpacklo_epi8(r[2], r[3]), high23 = _mm_unpackhi_epi8(r[2], r[3]);
    const __m256i low =
        _mm256_set_m128i(_mm_unpackhi_epi16(low01, low23), _mm_unpacklo_epi16(low01, low23));
    const __m256i high =
        _mm256_set_m128i(_mm_unpackhi_epi16(high01, high23), _mm_unpacklo_epi16(high01, high23));
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  }
  static void load_many(const Element* from, int64_t depth, __mmask64 lanes, int64_t n,
                        Chunk (&r)[4]) {
    Chunk rows[kGroup];
    DLBLAS_UNROLL
    for (int k = 0; k < kGroup; ++k) rows[k] = load_64_codes(from + k * depth, k < n ? lanes : 0);
    const Chunk low01 = _mm512_unpacklo_epi8(rows[0], rows[1]),
                high01 = _mm512_unpackhi_epi8(rows[0], rows[1]);
    const Chunk low23 = _mm512_unpacklo_epi8(rows[2], rows[3]),
                high23 = _mm512_unpackhi_epi8(rows[2], rows[3]);
    // a: the first four of each 16 lanes, b: the next, …; transposed as 4×4 of 16 bytes.
    const Chunk a = _mm512_unpacklo_epi16(low01, low23), b = _mm512_unpackhi_epi16(low01, low23);
    const Chunk c = _mm512_unpacklo_epi16(high01, high23),
                d = _mm512_unpackhi_epi16(high01, high23);
    const Chunk ab_low = _mm512_shuffle_i32x4(a, b, 0x44),
                ab_high = _mm512_shuffle_i32x4(a, b, 0xee);
    const Chunk cd_low = _mm512_shuffle_i32x4(c, d, 0x44),
                cd_high = _mm512_shuffle_i32x4(c, d, 0xee);
    r[0] = _mm512_shuffle_i32x4(ab_low, cd_low, 0x88);
    r[1] = _mm512_shuffle_i32x4(ab_low, cd_low, 0xdd);
    r[2] = _mm512_shuffle_i32x4(ab_high, cd_high, 0x88);
    r[3] = _mm512_shuffle_i32x4(ab_high, cd_high, 0xdd);
  }
};

/// Sums of i8 are i32 in the place of floats. The sum of several spans becomes two floats, kPlane
/// apart, which the epilogue adds in f64.
struct I8Core : PairCore<I8Terms> {
  static constexpr int kPlane = 1024;
  static_assert(2 * kPlane <= kTileRoom);

  DLBLAS_OUTLINE static void end_span(float* tile, GemmTile shape, float* sums,
                                      const GemmPartial& s, bool first, bool last) {
    constexpr int64_t kHalf = kWidth / 2;
    for (int64_t i = 0; i < shape.m; ++i) {
      for (int64_t j = 0; j < shape.n; j += kHalf) {
        float *at = tile + i * shape.n + j, *total_at = sums + s.plane + i * s.ld + j;
        float* const error_at = total_at + s.plane;
        __m512d total = _mm512_cvtepi32_pd(_mm256_loadu_si256(reinterpret_cast<__m256i*>(at)));
        if (!first)
          total = _mm512_add_pd(total, _mm512_add_pd(_mm512_cvtps_pd(_mm256_loadu_ps(total_at)),
                                                     _mm512_cvtps_pd(_mm256_loadu_ps(error_at))));
        const __m256 high = _mm512_cvtpd_ps(total);
        const __m256 low = _mm512_cvtpd_ps(_mm512_sub_pd(total, _mm512_cvtps_pd(high)));
        _mm256_storeu_ps(last ? at : total_at, high);
        _mm256_storeu_ps(last ? at + kPlane : error_at, low);
      }
    }
  }
};

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
