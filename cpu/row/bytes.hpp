// One-byte elements of row programs on CPUs: f8e4m3, f8e5m2 and i8 as vectors of f32, and back, to
// nearest even; beyond the largest value the largest, as torch quantises. NaN stays NaN in f8 and
// is 0 in i8. Tested against device/float8.hpp (tests/cpp/test_rows.cpp). Compiled once per
// instruction set, as cpu/simd.hpp. Read next: cpu/row/access.hpp.
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

template <FloatType T>
struct ByteFormat {
  static constexpr bool kE4M3 = T == FloatType::kF8E4M3;
  static constexpr int kFraction = kE4M3 ? 3 : 2, kBias = kE4M3 ? 7 : 15;
  static constexpr float kLargest = kE4M3 ? 448.0f : 57344.0f;
};

/// Codes in the low byte of each lane.
template <FloatType T>
DLBLAS_INLINE Ints encode(Vec v) {
  if constexpr (T == FloatType::kI8) {
    const Vec inside = min_number(max_number(v, broadcast(-128.0f)), broadcast(127.0f));
    const Ints code = __builtin_convertvector(round_to_whole(inside), Ints);
    return choose(is_nan(v), Ints{}, code) & 0xff;
  } else {
    using F = ByteFormat<T>;
    constexpr int kShift = 23 - F::kFraction, kLeast = 1 - F::kBias;
    const Vec a = min_number(abs(v), broadcast(F::kLargest));
    // Half of a step less one, and one more where the last bit stays: ties go to even.
    const Ints bits = (Ints)a;
    const Ints normal = ((bits + ((bits >> kShift) & 1) + ((1 << (kShift - 1)) - 1)) >> kShift) -
                        ((127 - F::kBias) << F::kFraction);
    // Below 2^kLeast steps are as large as those of a sum with this.
    constexpr float kRounder = power_of_2(kLeast + kShift);
    const Ints small = (Ints)(a + broadcast(kRounder)) - (Ints)broadcast(kRounder);
    const Ints code = choose(less(a, broadcast(power_of_2(kLeast))), small, normal);
    return choose(is_nan(v), Ints{} + 0x7f, code) | (((Ints)v >> 24) & 0x80);
  }
}

/// Out of codes in the low byte of each lane, the others 0.
template <FloatType T>
DLBLAS_INLINE Vec decode(Ints code) {
  if constexpr (T == FloatType::kI8) {
    return __builtin_convertvector((code << 24) >> 24, Vec);
  } else {
    using F = ByteFormat<T>;
    const Ints sign = (code & 0x80) << 24;
    const Vec v =
        (Vec)((code & 0x7f) << (23 - F::kFraction)) * broadcast(power_of_2(127 - F::kBias));
    // What is beyond the largest: infinity and NaN of e5m2 by the bits that they have, NaN of e4m3.
    const Ints special = F::kE4M3 ? Ints{} + 0x7fc00000 : (Ints)v | 0x7f800000;
    return (Vec)(choose(less(broadcast(F::kLargest), v), special, (Ints)v) | sign);
  }
}

/// 2·kWidth bytes, past the caches where the address is a multiple of as many.
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

/// Two vectors, in order or, paired, by even and odd elements.
template <FloatType T>
DLBLAS_INLINE void store_bytes_as(char* to, Vec a, Vec b, bool paired, bool stream) {
  const Ints x = encode<T>(a), y = encode<T>(b);
  if (paired) return store_pairs(to, __builtin_convertvector(x | y << 8, BytePairs), stream);
  const Bytes halves[] = {__builtin_convertvector(x, Bytes), __builtin_convertvector(y, Bytes)};
  BytePairs both;
  __builtin_memcpy(&both, halves, sizeof both);
  store_pairs(to, both, stream);
}
DLBLAS_OUTLINE void store_bytes(FloatType type, char* to, Vec a, Vec b, bool paired, bool stream) {
  if (type == FloatType::kF8E4M3)
    store_bytes_as<FloatType::kF8E4M3>(to, a, b, paired, stream);
  else if (type == FloatType::kF8E5M2)
    store_bytes_as<FloatType::kF8E5M2>(to, a, b, paired, stream);
  else
    store_bytes_as<FloatType::kI8>(to, a, b, paired, stream);
}

DLBLAS_INLINE Vec decode(FloatType type, Ints code) {
  return type == FloatType::kF8E4M3   ? decode<FloatType::kF8E4M3>(code)
         : type == FloatType::kF8E5M2 ? decode<FloatType::kF8E5M2>(code)
                                      : decode<FloatType::kI8>(code);
}
DLBLAS_OUTLINE Pair load_bytes(FloatType type, const char* from, bool paired) {
  Ints x, y;
  if (paired) {
    BytePairs both;
    __builtin_memcpy(&both, from, sizeof both);
    const Ints lanes = __builtin_convertvector(both, Ints);
    x = lanes & 0xff, y = lanes >> 8;
  } else {
    Bytes halves[2];
    __builtin_memcpy(halves, from, sizeof halves);
    x = __builtin_convertvector(halves[0], Ints), y = __builtin_convertvector(halves[1], Ints);
  }
  return {decode(type, x), decode(type, y)};
}

/// The first n bytes; zeros above.
DLBLAS_INLINE Vec load_bytes_partial(FloatType type, const char* from, int n) {
  Bytes bytes = {};
  __builtin_memcpy(&bytes, from, static_cast<size_t>(n));
  return decode(type, __builtin_convertvector(bytes, Ints));
}
DLBLAS_INLINE void store_bytes_partial(FloatType type, char* to, Vec v, int n) {
  const Ints code = type == FloatType::kF8E4M3   ? encode<FloatType::kF8E4M3>(v)
                    : type == FloatType::kF8E5M2 ? encode<FloatType::kF8E5M2>(v)
                                                 : encode<FloatType::kI8>(v);
  const Bytes bytes = __builtin_convertvector(code, Bytes);
  __builtin_memcpy(to, &bytes, static_cast<size_t>(n));
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
