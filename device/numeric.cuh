// f32, f16, bf16 and the two f8 types on the device, in PTX without a CUDA header. Values are
// computed in f32; memory holds raw bits. In: bits, as words of two 16-bit elements or of one
// element. Out: floats, and back with one rounding to nearest even (NaN stays NaN; f8 saturates).
// Read next: device/vec.cuh.
#pragma once

#include "device/float8.hpp"

namespace dlblas {

__device__ inline float float_from_bits(uint32_t bits) { return __uint_as_float(bits); }
__device__ inline uint32_t bits_of_float(float value) { return __float_as_uint(value); }

/// Two elements of a 16-bit type in one word: `low` is the one at the lower address.
struct FloatPair {
  float low, high;
};

/// A word's two elements as floats. bf16 is the upper half of an f32, so a shift and a mask
/// suffice: one instruction per element, and no conversion (those run at a quarter of the rate).
template <DType T>
__device__ inline FloatPair unpack_pair(uint32_t word) {
  static_assert(size_of(T) == 2);
  if constexpr (T == DType::kBF16)
    return {float_from_bits(word << 16), float_from_bits(word & 0xffff0000u)};
  FloatPair pair;
  asm("{\n .reg .b16 l, h;\n mov.b32 {l, h}, %2;\n cvt.f32.f16 %0, l;\n cvt.f32.f16 %1, h;\n}"
      : "=f"(pair.low), "=f"(pair.high)
      : "r"(word));
  return pair;
}

/// Two floats rounded into one word, in one instruction.
template <DType T>
__device__ inline uint32_t pack_pair(float low, float high) {
  static_assert(size_of(T) == 2);
  uint32_t word;
  if constexpr (T == DType::kBF16)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

/// One element from its bits, in the lower bits of a word.
template <DType T>
__device__ inline float unpack_one(uint32_t bits) {
  if constexpr (T == DType::kF32)
    return float_from_bits(bits);
  else if constexpr (T == DType::kF8E4M3)
    return float_from_bits(f8e4m3_to_f32_bits(bits & 0xffu));
  else if constexpr (T == DType::kF8E5M2)
    return float_from_bits(f8e5m2_to_f32_bits(bits & 0xffu));
  else
    return unpack_pair<T>(bits).low;
}
/// One f8 element's bits, in one instruction from sm_89 on.
template <DType T>
__device__ inline uint32_t pack_f8(float value) {
  static_assert(is_f8(T));
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  uint16_t pair;
  if constexpr (T == DType::kF8E4M3)
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(value));
  else
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(value));
  return pair & 0xffu;
#else
  const uint32_t bits = bits_of_float(value);
  return T == DType::kF8E4M3 ? f32_bits_to_f8e4m3(bits) : f32_bits_to_f8e5m2(bits);
#endif
}
/// One element's bits; the rest of the word is zero for a narrower type.
template <DType T>
__device__ inline uint32_t pack_one(float value) {
  if constexpr (T == DType::kF32)
    return bits_of_float(value);
  else if constexpr (is_f8(T))
    return pack_f8<T>(value);
  else
    return pack_pair<T>(value, 0.0f);
}

/// value rounded to T and back.
template <DType T>
__device__ inline float round_to(float value) {
  if constexpr (T == DType::kF32)
    return value;
  else
    return unpack_one<T>(pack_one<T>(value));
}

/// 1 / sqrt(value), within 2 ulp (units in the last place); inf for values below 2^-126.
__device__ inline float reciprocal_root(float value) {
  float root;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(value));
  return root;
}

}  // namespace dlblas
