// The toolbox of cpu/simd.hpp for AVX-512 (F, BW, VL, DQ): 16 lanes, masks for tails.
// Included by cpu/simd.hpp alone. bf16 goes by integer operations: AVX512_BF16 is not required, and
// its conversion flushes denormals. Read next: ops/norm/norm_simd.hpp, which is built from it.
#pragma once

// NOLINTBEGIN(google-build-namespaces)
namespace dlblas::avx512 {
namespace {

using Vec = __m512;
constexpr int kWidth = 16;

DLBLAS_INLINE Vec zero() { return _mm512_setzero_ps(); }
DLBLAS_INLINE Vec broadcast(float s) { return _mm512_set1_ps(s); }
DLBLAS_INLINE Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
DLBLAS_INLINE Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
DLBLAS_INLINE Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
DLBLAS_INLINE float reduce_add(Vec v) { return _mm512_reduce_add_ps(v); }

DLBLAS_INLINE __mmask16 first_lanes(int n) { return static_cast<__mmask16>((1u << n) - 1u); }

/// Widens 16 stored 16-bit elements.
template <Element E>
DLBLAS_INLINE Vec widen(__m256i h) {
  if constexpr (E == Element::kF16) return _mm512_cvtph_ps(h);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

/// The f32 bits of v rounded to bf16, in the upper half of each lane; the lower half is not
/// cleared.
DLBLAS_INLINE __m512i bf16_bits(Vec v) {
  const __m512i u = _mm512_castps_si512(v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
  // A NaN keeps its upper payload and turns quiet: rounding could carry it into infinity.
  const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  return _mm512_mask_or_epi32(rounded, nan, u, _mm512_set1_epi32(0x400000));
}

/// Narrows to 16 elements of 16 bits.
template <Element E>
DLBLAS_INLINE __m256i narrow(Vec v) {
  if constexpr (E == Element::kF16) {
    return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(bf16_bits(v), 16));
}

template <Element E>
DLBLAS_INLINE Vec round(Vec v) {
  if constexpr (E == Element::kF32) return v;
  if constexpr (E == Element::kF16) return widen<E>(narrow<E>(v));
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  return _mm512_castsi512_ps(_mm512_and_si512(bf16_bits(v), upper));
}

template <Element E>
DLBLAS_INLINE Vec load(const void* p) {
  if constexpr (E == Element::kF32) return _mm512_loadu_ps(p);
  return widen<E>(_mm256_loadu_si256(static_cast<const __m256i_u*>(p)));
}
template <Element E>
DLBLAS_INLINE Vec load_partial(const void* p, int n) {
  if constexpr (E == Element::kF32) return _mm512_maskz_loadu_ps(first_lanes(n), p);
  return widen<E>(_mm256_maskz_loadu_epi16(first_lanes(n), p));
}
template <Element E>
DLBLAS_INLINE void store(void* p, Vec v) {
  if constexpr (E == Element::kF32) return _mm512_storeu_ps(p, v);
  _mm256_storeu_si256(static_cast<__m256i_u*>(p), narrow<E>(v));
}
template <Element E>
DLBLAS_INLINE void store_partial(void* p, Vec v, int n) {
  if constexpr (E == Element::kF32) return _mm512_mask_storeu_ps(p, first_lanes(n), v);
  _mm256_mask_storeu_epi16(p, first_lanes(n), narrow<E>(v));
}
template <Element E>
DLBLAS_INLINE void stream(void* p, Vec v) {
  if constexpr (E == Element::kF32) return _mm512_stream_ps(static_cast<float*>(p), v);
  _mm256_stream_si256(static_cast<__m256i*>(p), narrow<E>(v));
}

}  // namespace
}  // namespace dlblas::avx512
// NOLINTEND(google-build-namespaces)
