// The toolbox of cpu/simd.hpp for AVX2 with FMA and F16C: 8 lanes; tails are processed element by
// element, except for f32, which has masked moves. Included by cpu/simd.hpp alone. Read next:
// cpu/row/walk.hpp.
#pragma once

// NOLINTBEGIN(google-build-namespaces)
namespace dlblas::avx2 {
namespace {

using Vec = __m256;
constexpr int kWidth = 8;

DLBLAS_INLINE Vec zero() { return _mm256_setzero_ps(); }
DLBLAS_INLINE Vec broadcast(float s) { return _mm256_set1_ps(s); }
DLBLAS_INLINE Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
DLBLAS_INLINE Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
DLBLAS_INLINE Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
DLBLAS_INLINE float reduce_add(Vec v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

/// All ones in the first n lanes.
DLBLAS_INLINE __m256i first_lanes(int n) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane);
}

/// Widens 8 stored 16-bit elements.
template <DType E>
DLBLAS_INLINE Vec widen(__m128i h) {
  if constexpr (E == DType::kF16) return _mm256_cvtph_ps(h);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/// The f32 bits of v rounded to bf16, in the upper half of each lane; the lower half is not
/// cleared.
template <Nans N = Nans::kAny>
DLBLAS_INLINE __m256i bf16_bits(Vec v) {
  const __m256i u = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
  if constexpr (N == Nans::kShort) return rounded;
  // A NaN keeps its upper payload and becomes quiet: rounding could carry it into infinity.
  const __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(rounded, quiet, nan);
}

/// Narrows to 8 elements of 16 bits.
template <DType E>
DLBLAS_INLINE __m128i narrow(Vec v) {
  if constexpr (E == DType::kF16) {
    return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  const __m256i h = _mm256_srli_epi32(bf16_bits(v), 16);
  // packus works within 128-bit halves: the needed quarters end up at 0 and 2.
  return _mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi32(h, h), 0x08));
}

template <DType E, Nans N = Nans::kAny>
DLBLAS_INLINE Vec round(Vec v) {
  if constexpr (E == DType::kF32) return v;
  if constexpr (E == DType::kF16) return widen<E>(narrow<E>(v));
  const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  return _mm256_castsi256_ps(_mm256_and_si256(bf16_bits<N>(v), upper));
}

template <DType E>
DLBLAS_INLINE Vec load(const void* p) {
  if constexpr (E == DType::kF32) return _mm256_loadu_ps(static_cast<const float*>(p));
  return widen<E>(_mm_loadu_si128(static_cast<const __m128i_u*>(p)));
}
template <DType E>
DLBLAS_OUTLINE Vec load_partial(const void* p, int n) {
  if constexpr (E == DType::kF32) {
    return _mm256_maskload_ps(static_cast<const float*>(p), first_lanes(n));
  }
  alignas(16) uint16_t lanes[kWidth] = {};
  for (int i = 0; i < n; ++i) __builtin_memcpy(&lanes[i], at<E>(p, i), 2);
  return widen<E>(_mm_load_si128(reinterpret_cast<const __m128i*>(lanes)));
}
template <DType E>
DLBLAS_INLINE void store(void* p, Vec v) {
  if constexpr (E == DType::kF32) return _mm256_storeu_ps(static_cast<float*>(p), v);
  _mm_storeu_si128(static_cast<__m128i_u*>(p), narrow<E>(v));
}
template <DType E>
DLBLAS_OUTLINE void store_partial(void* p, Vec v, int n) {
  if constexpr (E == DType::kF32) {
    return _mm256_maskstore_ps(static_cast<float*>(p), first_lanes(n), v);
  }
  alignas(16) uint16_t lanes[kWidth];
  _mm_store_si128(reinterpret_cast<__m128i*>(lanes), narrow<E>(v));
  for (int i = 0; i < n; ++i) __builtin_memcpy(at<E>(p, i), &lanes[i], 2);
}
template <DType E>
DLBLAS_INLINE void stream(void* p, Vec v) {
  if constexpr (E == DType::kF32) return _mm256_stream_ps(static_cast<float*>(p), v);
  _mm_stream_si128(static_cast<__m128i*>(p), narrow<E>(v));
}

/// Two vectors of contiguous elements. bf16 is split into even and odd elements, which needs no
/// permutation: half of the conversion's work (rms_norm bf16 512x4096 on Zen 4: see
/// docs/notes/norm_kernels.md).
struct Pair {
  Vec a, b;
};

/// shuffle_ps works within 128-bit halves: swaps the result's middle quarters.
DLBLAS_INLINE Vec in_order(Vec v) {
  return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), 0xd8));
}

/// 2 * kWidth elements of W, in the lane order of load2<E, E>.
template <DType W, DType E>
DLBLAS_INLINE Pair load2(const void* p) {
  static_assert(W == E || W == DType::kF32);
  if constexpr (W == DType::kBF16) {
    const __m256i h = _mm256_loadu_si256(static_cast<const __m256i_u*>(p));
    const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(h, 16)),
            _mm256_castsi256_ps(_mm256_and_si256(h, upper))};
  }
  const Vec first = load<W>(p), second = load<W>(at<W>(p, kWidth));
  if constexpr (E != DType::kBF16) return {first, second};
  return {in_order(_mm256_shuffle_ps(first, second, 0x88)),
          in_order(_mm256_shuffle_ps(first, second, 0xdd))};
}

/// 16 stored elements from their even and odd lanes.
template <Nans N>
DLBLAS_INLINE __m256i bf16_pair(Pair v) {
  return _mm256_blend_epi16(_mm256_srli_epi32(bf16_bits<N>(v.a), 16), bf16_bits<N>(v.b), 0xaa);
}

/// Inverse of load2<E, E>.
template <DType E, Nans N = Nans::kAny>
DLBLAS_INLINE void store2(void* p, Pair v) {
  if constexpr (E == DType::kBF16) {
    return _mm256_storeu_si256(static_cast<__m256i_u*>(p), bf16_pair<N>(v));
  }
  store<E>(p, v.a);
  store<E>(at<E>(p, kWidth), v.b);
}
/// Like store2, but bypasses the caches; p is aligned to two stored vectors.
template <DType E, Nans N = Nans::kAny>
DLBLAS_INLINE void stream2(void* p, Pair v) {
  if constexpr (E == DType::kBF16) {
    return _mm256_stream_si256(static_cast<__m256i*>(p), bf16_pair<N>(v));
  }
  stream<E>(p, v.a);
  stream<E>(at<E>(p, kWidth), v.b);
}

}  // namespace
}  // namespace dlblas::avx2
// NOLINTEND(google-build-namespaces)
