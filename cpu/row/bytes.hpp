// One-byte elements of row programs on CPUs: f8e4m3, f8e5m2 and i8 to vectors of f32 and back,
// rounded to nearest even and saturated at the largest value, as torch quantises. NaN stays NaN in
// f8 and becomes 0 in i8. Tested against device/float8.hpp (tests/cpp/test_rows.cpp). Compiled once
// per instruction set, like cpu/simd.hpp. Read next: cpu/row/access.hpp.
#pragma once

#include "cpu/math.hpp"
#include "device/types.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

using Bytes = uint8_t __attribute__((vector_size(kWidth)));
using BytePairs = uint16_t __attribute__((vector_size(2 * kWidth)));

/// 2^k for a normal result.
constexpr float power_of_2(int k) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(k + 127) << 23);
}

template <DType T>
struct ByteFormat {
  static constexpr bool kE4M3 = T == DType::kF8E4M3;
  static constexpr int kFraction = kE4M3 ? 3 : 2, kBias = kE4M3 ? 7 : 15;
  static constexpr float kLargest = kE4M3 ? 448.0f : 57344.0f;
};

/// Added to a value of the binade whose least power of 2 has the bits `power`, it makes the sum's
/// last bit one step of that binade; below the least normal binade steps are as large as there. Its
/// last bits count the steps of all lower binades: the sum's last bits are a value's code.
template <DType T>
constexpr int32_t kRounderOffset = [] {
  constexpr int kShift = 23 - ByteFormat<T>::kFraction;
  return (kShift << 23) - ((128 - ByteFormat<T>::kBias) << ByteFormat<T>::kFraction);
}();
template <DType T, typename I>
constexpr I rounder_of(I power) {
  return power + (power >> (23 - ByteFormat<T>::kFraction)) + kRounderOffset<T>;
}

#if defined(__AVX512F__)
/// f8e4m3's rounders, indexed by the last four bits of a binade's exponent.
struct Rounders {
  alignas(64) int32_t of[16] = {};
  constexpr Rounders() {
    for (int32_t e = -6; e <= 8; ++e)
      of[(e + 127) % 16] = rounder_of<DType::kF8E4M3>((e + 127) << 23);
  }
};
constexpr Rounders kRounders;
#endif

/// Codes in the low byte of each lane; the other bytes are 0.
template <DType T>
DLBLAS_INLINE Ints encode(Vec v) {
  if constexpr (T == DType::kI8) {
    // NaN passes, and becomes an integer whose low byte is 0.
    const Vec inside = min_number(broadcast(127.0f), max_number(broadcast(-128.0f), v));
    return round_to_ints(inside) & 0xff;
  } else {
    using F = ByteFormat<T>;
    constexpr float kMin = power_of_2(1 - F::kBias);
    const Vec a = min_number(abs(v), broadcast(F::kLargest));
#if defined(__AVX512F__)
    if constexpr (T == DType::kF8E4M3) {
      const __m512i exponent = _mm512_srli_epi32((__m512i)max_number(a, broadcast(kMin)), 23);
      const Vec rounder = _mm512_permutexvar_ps(exponent, load<DType::kF32>(kRounders.of));
      const Vec code = _mm512_mask_add_ps((Vec)(Ints{} + 0x7f),
                                          _mm512_cmp_ps_mask(v, v, _CMP_ORD_Q), a, rounder);
      constexpr int kSelect = 0xca;  // the second where the first has ones, else the third
      return (Ints)_mm512_ternarylogic_epi32(_mm512_set1_epi32(0x7f), (__m512i)code,
                                             _mm512_srli_epi32((__m512i)v, 24), kSelect);
    }
#endif
    const Ints power = max((Ints)a & 0x7f800000, (Ints)broadcast(kMin));
    const Ints code = (Ints)(a + (Vec)rounder_of<T>(power));
    return (choose(is_nan(v), Ints{} + 0x7f, code) & 0x7f) | (((Ints)v >> 24) & 0x80);
  }
}

/// Decodes codes in the low byte of each lane; the other bytes are 0.
template <DType T>
DLBLAS_INLINE Vec decode(Ints code) {
  if constexpr (T == DType::kI8) {
    return __builtin_convertvector((code << 24) >> 24, Vec);
  } else {
    using F = ByteFormat<T>;
    const Ints sign = (code & 0x80) << 24;
    // Below kMin there is no leading one: goes one binade up, then subtracts it. Not a product,
    // which would take denormals: 8 times slower if one code in 12 is denormal (Zen 3).
    constexpr float kMin = power_of_2(1 - F::kBias);
    const Ints bits = ((code & 0x7f) << (23 - F::kFraction)) + ((127 - F::kBias) << 23);
    const Vec small = (Vec)(bits + (1 << 23)) - broadcast(kMin);
    const Vec v = choose(less((Vec)bits, broadcast(kMin)), small, (Vec)bits);
    // Beyond the largest: e5m2's infinity and NaN, from the bits they have, and e4m3's NaN.
    const Ints special = F::kE4M3 ? Ints{} + 0x7fc00000 : (Ints)v | 0x7f800000;
    return (Vec)(choose(less(broadcast(F::kLargest), v), special, (Ints)v) | sign);
  }
}

/// Stores 2·kWidth bytes; `stream` bypasses the caches, if the address is a multiple of that.
DLBLAS_INLINE void store_pairs(char* to, BytePairs v, bool stream) {
#if defined(__AVX512F__)
  if (stream) return _mm256_stream_si256(reinterpret_cast<__m256i*>(to), (__m256i)v);
#elif defined(__AVX2__)
  if (stream) return _mm_stream_si128(reinterpret_cast<__m128i*>(to), (__m128i)v);
#elif defined(__SSE2__)
  if (stream)
    return _mm_stream_si64(reinterpret_cast<long long*>(to),
                           static_cast<long long>(__builtin_bit_cast(uint64_t, v)));
#endif
  __builtin_memcpy(to, &v, sizeof v);
}

/// The low bytes of two vectors, concatenated, and the low halves of one vector's lanes. g++ 12
/// narrows a whole vector lane by lane, which took half of quantize_group's time (AVX2).
DLBLAS_INLINE BytePairs pack_bytes(Ints a, Ints b) {
#if defined(__AVX512F__)
  return (BytePairs)_mm256_set_m128i(_mm512_cvtepi32_epi8((__m512i)b),
                                     _mm512_cvtepi32_epi8((__m512i)a));
#elif defined(__AVX2__)
  // Packing works within 128-bit halves: quarters arrive as a0 b0 · · a1 b1 · ·.
  const __m256i both = _mm256_packs_epi32((__m256i)a, (__m256i)b);
  const __m256i bytes = _mm256_packus_epi16(both, both);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5);
  return (BytePairs)_mm256_castsi256_si128(_mm256_permutevar8x32_epi32(bytes, order));
#elif defined(__SSE2__)
  const __m128i both = _mm_packs_epi32((__m128i)a, (__m128i)b);
  return __builtin_bit_cast(BytePairs, _mm_cvtsi128_si64(_mm_packus_epi16(both, both)));
#else
  const Bytes halves[] = {__builtin_convertvector(a, Bytes), __builtin_convertvector(b, Bytes)};
  return __builtin_bit_cast(BytePairs, halves);
#endif
}
DLBLAS_INLINE BytePairs pack_halves(Ints a) {
#if defined(__AVX512F__)
  return (BytePairs)_mm512_cvtepi32_epi16((__m512i)a);
#elif defined(__AVX2__)
  const __m256i halves = _mm256_packus_epi32((__m256i)a, (__m256i)a);
  return (BytePairs)_mm256_castsi256_si128(_mm256_permute4x64_epi64(halves, 0x08));
#else
  return __builtin_convertvector(a, BytePairs);
#endif
}
/// kWidth bytes, or pairs of bytes, as integers.
DLBLAS_INLINE Ints widen_bytes(const char* from) {
#if defined(__AVX512F__)
  return (Ints)_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i_u*>(from)));
#elif defined(__AVX2__)
  return (Ints)_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i_u*>(from)));
#else
  Bytes bytes;
  __builtin_memcpy(&bytes, from, sizeof bytes);
  return __builtin_convertvector(bytes, Ints);
#endif
}
DLBLAS_INLINE Ints widen_halves(const char* from) {
#if defined(__AVX512F__)
  return (Ints)_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(from)));
#elif defined(__AVX2__)
  return (Ints)_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i_u*>(from)));
#else
  BytePairs both;
  __builtin_memcpy(&both, from, sizeof both);
  return __builtin_convertvector(both, Ints);
#endif
}

/// Two vectors, in order or, if `paired`, split into even and odd elements.
template <DType T>
DLBLAS_INLINE void store_bytes_as(char* to, Vec a, Vec b, bool paired, bool stream) {
  const Ints x = encode<T>(a), y = encode<T>(b);
  store_pairs(to, paired ? pack_halves(x | y << 8) : pack_bytes(x, y), stream);
}
DLBLAS_OUTLINE void store_bytes(DType type, char* to, Vec a, Vec b, bool paired, bool stream) {
  if (type == DType::kF8E4M3)
    store_bytes_as<DType::kF8E4M3>(to, a, b, paired, stream);
  else if (type == DType::kF8E5M2)
    store_bytes_as<DType::kF8E5M2>(to, a, b, paired, stream);
  else
    store_bytes_as<DType::kI8>(to, a, b, paired, stream);
}

DLBLAS_INLINE Vec decode(DType type, Ints code) {
  return type == DType::kF8E4M3   ? decode<DType::kF8E4M3>(code)
         : type == DType::kF8E5M2 ? decode<DType::kF8E5M2>(code)
                                  : decode<DType::kI8>(code);
}
template <DType T>
DLBLAS_INLINE Pair load_bytes_as(const char* from, bool paired) {
  if (!paired) return {decode<T>(widen_bytes(from)), decode<T>(widen_bytes(from + kWidth))};
  const Ints lanes = widen_halves(from);
  return {decode<T>(lanes & 0xff), decode<T>(lanes >> 8)};
}
DLBLAS_OUTLINE Pair load_bytes(DType type, const char* from, bool paired) {
  return type == DType::kF8E4M3   ? load_bytes_as<DType::kF8E4M3>(from, paired)
         : type == DType::kF8E5M2 ? load_bytes_as<DType::kF8E5M2>(from, paired)
                                  : load_bytes_as<DType::kI8>(from, paired);
}

/// The first n bytes; zeros above.
DLBLAS_INLINE Vec load_bytes_partial(DType type, const char* from, int n) {
  Bytes bytes = {};
  __builtin_memcpy(&bytes, from, static_cast<size_t>(n));
  return decode(type, __builtin_convertvector(bytes, Ints));
}
DLBLAS_INLINE void store_bytes_partial(DType type, char* to, Vec v, int n) {
  const Ints code = type == DType::kF8E4M3   ? encode<DType::kF8E4M3>(v)
                    : type == DType::kF8E5M2 ? encode<DType::kF8E5M2>(v)
                                             : encode<DType::kI8>(v);
  const Bytes bytes = __builtin_convertvector(code, Bytes);
  __builtin_memcpy(to, &bytes, static_cast<size_t>(n));
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
