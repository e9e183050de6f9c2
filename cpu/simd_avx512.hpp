// The toolbox of cpu/simd.hpp for AVX-512 (F, BW, VL, DQ): 16 lanes, masks for tails.
// Included by cpu/simd.hpp alone. bf16 uses integer operations: AVX512_BF16 is not required, and
// its conversion flushes denormals. Read next: cpu/row/walk.hpp, which is built on it.
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
template <DType E>
DLBLAS_INLINE Vec widen(__m256i h) {
  if constexpr (E == DType::kF16) return _mm512_cvtph_ps(h);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

/// The f32 bits of v rounded to bf16, in the upper half of each lane; the lower half is not
/// cleared.
template <Nans N = Nans::kAny>
DLBLAS_INLINE __m512i bf16_bits(Vec v) {
  const __m512i u = _mm512_castps_si512(v);
  const __mmask16 odd = _mm512_test_epi32_mask(u, _mm512_set1_epi32(0x10000));
  const __m512i even = _mm512_add_epi32(u, _mm512_set1_epi32(0x7fff));
  const __m512i rounded = _mm512_mask_add_epi32(even, odd, u, _mm512_set1_epi32(0x8000));
  if constexpr (N == Nans::kShort) return rounded;
  // A NaN keeps its upper payload and becomes quiet: rounding could carry it into infinity.
  const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  return _mm512_mask_or_epi32(rounded, nan, u, _mm512_set1_epi32(0x400000));
}

/// Narrows to 16 elements of 16 bits.
template <DType E>
DLBLAS_INLINE __m256i narrow(Vec v) {
  if constexpr (E == DType::kF16) {
    return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
#if defined(__AVX512BF16__)  // of bf16 products, where denormal values count as zero
  return (__m256i)_mm512_cvtneps_pbh(v);
#else
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(bf16_bits(v), 16));
#endif
}

template <DType E, Nans N = Nans::kAny>
DLBLAS_INLINE Vec round(Vec v) {
  if constexpr (E == DType::kF32) return v;
  if constexpr (E == DType::kF16) return widen<E>(narrow<E>(v));
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  return _mm512_castsi512_ps(_mm512_and_si512(bf16_bits<N>(v), upper));
}

template <DType E>
DLBLAS_INLINE Vec load(const void* p) {
  if constexpr (E == DType::kF32) return _mm512_loadu_ps(p);
  return widen<E>(_mm256_loadu_si256(static_cast<const __m256i_u*>(p)));
}
template <DType E>
DLBLAS_INLINE Vec load_partial(const void* p, int n) {
  if constexpr (E == DType::kF32) return _mm512_maskz_loadu_ps(first_lanes(n), p);
  return widen<E>(_mm256_maskz_loadu_epi16(first_lanes(n), p));
}
template <DType E>
DLBLAS_INLINE void store(void* p, Vec v) {
  if constexpr (E == DType::kF32) return _mm512_storeu_ps(p, v);
  _mm256_storeu_si256(static_cast<__m256i_u*>(p), narrow<E>(v));
}
template <DType E>
DLBLAS_INLINE void store_partial(void* p, Vec v, int n) {
  if constexpr (E == DType::kF32) return _mm512_mask_storeu_ps(p, first_lanes(n), v);
  _mm256_mask_storeu_epi16(p, first_lanes(n), narrow<E>(v));
}
template <DType E>
DLBLAS_INLINE void stream(void* p, Vec v) {
  if constexpr (E == DType::kF32) return _mm512_stream_ps(static_cast<float*>(p), v);
  _mm256_stream_si256(static_cast<__m256i*>(p), narrow<E>(v));
}

/// Two vectors of contiguous elements. bf16 is split into even and odd elements, which needs no
/// permutation: half of the conversion's work (rms_norm bf16 512x4096 on Zen 4: see
/// docs/notes/norm_kernels.md).
struct Pair {
  Vec a, b;
};

/// 2 * kWidth elements of W, in the lane order of load2<E, E>.
template <DType W, DType E>
DLBLAS_INLINE Pair load2(const void* p) {
  static_assert(W == E || W == DType::kF32);
  if constexpr (W == DType::kBF16) {
    const __m512i h = _mm512_loadu_si512(p);
    const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(h, 16)),
            _mm512_castsi512_ps(_mm512_and_si512(h, upper))};
  }
  const Vec first = load<W>(p), second = load<W>(at<W>(p, kWidth));
  if constexpr (E != DType::kBF16) return {first, second};
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
  return {_mm512_permutex2var_ps(first, even, second), _mm512_permutex2var_ps(first, odd, second)};
}

/// 32 stored elements from their even and odd lanes.
template <Nans N>
DLBLAS_INLINE __m512i bf16_pair(Pair v) {
  const __m512i low = _mm512_srli_epi32(bf16_bits<N>(v.a), 16);
  return _mm512_mask_blend_epi16(0xaaaaaaaau, low, bf16_bits<N>(v.b));
}

/// Inverse of load2<E, E>.
template <DType E, Nans N = Nans::kAny>
DLBLAS_INLINE void store2(void* p, Pair v) {
  if constexpr (E == DType::kBF16) {
    return _mm512_storeu_si512(p, bf16_pair<N>(v));
  }
  store<E>(p, v.a);
  store<E>(at<E>(p, kWidth), v.b);
}
/// Like store2, but bypasses the caches; p is aligned to two stored vectors.
template <DType E, Nans N = Nans::kAny>
DLBLAS_INLINE void stream2(void* p, Pair v) {
  if constexpr (E == DType::kBF16) {
    return _mm512_stream_si512(static_cast<__m512i*>(p), bf16_pair<N>(v));
  }
  stream<E>(p, v.a);
  stream<E>(at<E>(p, kWidth), v.b);
}

}  // namespace
}  // namespace dlblas::avx512
// NOLINTEND(google-build-namespaces)
