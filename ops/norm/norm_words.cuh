// A norm's arithmetic on words as memory holds them: two 16-bit elements, or one f32. Each function
// is one statement to the compiler, which else spends a tenth of a kernel's compile time on moving
// elements in and out of pairs; the instructions are the same. One rounding at every `round`.
// In: words, f32 factors. Out: words. Read next: ops/norm/norm_stages.cuh.
#pragma once

#include "device/vec.cuh"

namespace dlblas {

// PTX: the elements of `word` as the floats l and h, low and high.
#define DLBLAS_UNPACK_BF16(word) \
  " .reg .b32 l, h;\n shl.b32 l, " word ", 16;\n and.b32 h, " word ", 0xffff0000;\n"
#define DLBLAS_UNPACK_F16(word)                                \
  " .reg .b16 a, b;\n .reg .f32 l, h;\n mov.b32 {a, b}, " word \
  ";\n"                                                        \
  " cvt.f32.f16 l, a;\n cvt.f32.f16 h, b;\n"

/// round(a + b), with the bits of a sum that was rounded to f32 first: its 24 bits are twice an
/// element's and two more.
template <FloatType T>
__device__ inline uint32_t add_words(uint32_t a, uint32_t b) {
  uint32_t sum = 0;
  if constexpr (T == FloatType::kF32)
    sum = bits_of_float(float_from_bits(a) + float_from_bits(b));
  else if constexpr (T == FloatType::kBF16)  // as 1 · a + b: sm_80 has no other sum of bf16
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(0x3f803f80u), "r"(b));
  else
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
  return sum;
}

/// even += low², odd += high². Of 16-bit types, as all that follow.
template <FloatType T>
__device__ inline void add_squares(uint32_t word, float& even, float& odd) {
  static_assert(T != FloatType::kF32);
  if constexpr (T == FloatType::kBF16)
    asm("{\n" DLBLAS_UNPACK_BF16("%2") " fma.rn.f32 %0, l, l, %0;\n fma.rn.f32 %1, h, h, %1;\n}"
        : "+f"(even), "+f"(odd)
        : "r"(word));
  else
    asm("{\n" DLBLAS_UNPACK_F16("%2") " fma.rn.f32 %0, l, l, %0;\n fma.rn.f32 %1, h, h, %1;\n}"
        : "+f"(even), "+f"(odd)
        : "r"(word));
}

/// sum += squares of the word's elements, in f64.
template <FloatType T>
__device__ inline void add_squares_wide(uint32_t word, double& sum) {
  if constexpr (T == FloatType::kF32) {
    const double v = float_from_bits(word);
    sum += v * v;
  } else {
    const FloatPair v = unpack_pair<T>(word);
    sum += static_cast<double>(v.low) * v.low + static_cast<double>(v.high) * v.high;
  }
}

/// round(element · first) · second: two factors, both `first`s in a word. −0 is added, which keeps
/// every sign.
template <FloatType T>
__device__ inline FloatPair scaled_pair(uint32_t word, uint32_t first, float second) {
  static_assert(T != FloatType::kF32);
  constexpr uint32_t kZeros = 0x80008000u;
  FloatPair v;
  if constexpr (T == FloatType::kBF16)
    asm("{\n .reg .b32 w;\n fma.rn.bf16x2 w, %2, %3, %5;\n" DLBLAS_UNPACK_BF16(
            "w") " mul.rn.f32 %0, l, %4;\n mul.rn.f32 %1, h, %4;\n}"
        : "=f"(v.low), "=f"(v.high)
        : "r"(word), "r"(first), "f"(second), "r"(kZeros));
  else
    asm("{\n .reg .b32 w;\n fma.rn.f16x2 w, %2, %3, %5;\n" DLBLAS_UNPACK_F16(
            "w") " mul.rn.f32 %0, l, %4;\n mul.rn.f32 %1, h, %4;\n}"
        : "=f"(v.low), "=f"(v.high)
        : "r"(word), "r"(first), "f"(second), "r"(kZeros));
  return v;
}

/// round(v · (weight + offset)).
template <FloatType T>
__device__ inline uint32_t weighed_word(FloatPair v, uint32_t weight, float offset) {
  static_assert(T != FloatType::kF32);
  uint32_t word;
  if constexpr (T == FloatType::kBF16)
    asm("{\n" DLBLAS_UNPACK_BF16("%3") " add.rn.f32 l, l, %4;\n add.rn.f32 h, h, %4;\n"
        " mul.rn.f32 l, %1, l;\n mul.rn.f32 h, %2, h;\n cvt.rn.bf16x2.f32 %0, h, l;\n}"
        : "=r"(word)
        : "f"(v.low), "f"(v.high), "r"(weight), "f"(offset));
  else
    asm("{\n" DLBLAS_UNPACK_F16("%3") " add.rn.f32 l, l, %4;\n add.rn.f32 h, h, %4;\n"
        " mul.rn.f32 l, %1, l;\n mul.rn.f32 h, %2, h;\n cvt.rn.f16x2.f32 %0, h, l;\n}"
        : "=r"(word)
        : "f"(v.low), "f"(v.high), "r"(weight), "f"(offset));
  return word;
}

}  // namespace dlblas
