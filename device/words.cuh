// Arithmetic of norms on words in their memory layout: two 16-bit elements, or one f32. Each
// function is one statement to the compiler, for up to one access of four words. Otherwise the
// compiler spends a tenth of a kernel's compile time moving elements in and out of pairs; the
// instructions are the same. One rounding at every `round`. In: words, f32 factors. Out: words.
// Read next: device/row/values.cuh, ops/norm/cuda/norm_stages.cuh.
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

/// round(a + b), with the bits of a sum that was first rounded to f32: its 24 bits are at least
/// twice an element's and two more.
template <DType T>
__device__ inline uint32_t add_words(uint32_t a, uint32_t b) {
  uint32_t sum = 0;
  if constexpr (T == DType::kF32)
    sum = bits_of_float(float_from_bits(a) + float_from_bits(b));
  else if constexpr (T == DType::kBF16)  // as 1 · a + b: sm_80 has no other sum of bf16
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(0x3f803f80u), "r"(b));
  else
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
  return sum;
}

// clang-format off
// PTX: even += low², odd += high².
#define DLBLAS_SQUARES(unpack, word, even, odd)  \
  "{\n" unpack(word)                             \
  " fma.rn.f32 " even ", l, l, " even ";\n"      \
  " fma.rn.f32 " odd ", h, h, " odd ";\n}\n"
#define DLBLAS_ADD_SQUARES(unpack)                                         \
  do {                                                                     \
    if constexpr (kWords == 4)                                             \
      asm("{\n"                                                            \
          DLBLAS_SQUARES(unpack, "%4", "%0", "%1")                         \
          DLBLAS_SQUARES(unpack, "%5", "%2", "%3")                         \
          DLBLAS_SQUARES(unpack, "%6", "%0", "%1")                         \
          DLBLAS_SQUARES(unpack, "%7", "%2", "%3") "}"                     \
          : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])     \
          : "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]));   \
    else                                                                   \
      for (int i = 0; i < kWords; ++i)                                     \
        asm(DLBLAS_SQUARES(unpack, "%2", "%0", "%1")                       \
            : "+f"(sums[2 * i]), "+f"(sums[2 * i + 1]) : "r"(words[i]));   \
  } while (false)
// clang-format on

/// sums[0], [1] += squares of words 0 and 2, low and high; [2], [3] += those of words 1 and 3. For
/// 16-bit types.
template <DType T, int kWords>
__device__ inline void add_squares(const uint32_t* words, float (&sums)[4]) {
  static_assert(T != DType::kF32 && (kWords == 4 || kWords <= 2));
  if constexpr (T == DType::kBF16)
    DLBLAS_ADD_SQUARES(DLBLAS_UNPACK_BF16);
  else
    DLBLAS_ADD_SQUARES(DLBLAS_UNPACK_F16);
}

/// sum += squares of the word's elements, in f64.
template <DType T>
__device__ inline void add_squares_wide(uint32_t word, double& sum) {
  if constexpr (T == DType::kF32) {
    const double v = float_from_bits(word);
    sum += v * v;
  } else {
    const FloatPair v = unpack_pair<T>(word);
    sum += static_cast<double>(v.low) * v.low + static_cast<double>(v.high) * v.high;
  }
}

/// round(element · first) · second; both halves of a word hold `first`. −0 is added, which keeps
/// every sign.
template <DType T>
__device__ inline FloatPair scaled_pair(uint32_t word, uint32_t first, float second) {
  static_assert(T != DType::kF32);
  constexpr uint32_t kZeros = 0x80008000u;
  FloatPair v;
  if constexpr (T == DType::kBF16)
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

// clang-format off
// PTX: to = round(round(word · first) · second · (weight + offset)). −0 is added to the first
// product, which keeps every sign. `cast`: the code that rounds before the weight, or nothing.
#define DLBLAS_NORMALIZED(unpack, x2, cast, to, word, weight, first, second, offset)  \
  "{\n .reg .b32 w;\n .reg .f32 u, v;\n"                                              \
  " mov.b32 w, 0x80008000;\n fma.rn." x2 " w, " word ", " first ", w;\n"              \
  "{\n" unpack("w")                                                                   \
  " mul.rn.f32 u, l, " second ";\n mul.rn.f32 v, h, " second ";\n}\n"                 \
  cast(unpack, x2)                                                                    \
  "{\n" unpack(weight)                                                                \
  " add.rn.f32 l, l, " offset ";\n add.rn.f32 h, h, " offset ";\n"                    \
  " mul.rn.f32 u, u, l;\n mul.rn.f32 v, v, h;\n}\n"                                   \
  " cvt.rn." x2 ".f32 " to ", v, u;\n}\n"
#define DLBLAS_NO_CAST(unpack, x2) ""
#define DLBLAS_CAST(unpack, x2)        \
  " cvt.rn." x2 ".f32 w, v, u;\n"      \
  "{\n" unpack("w") " mov.b32 u, l;\n mov.b32 v, h;\n}\n"

#define DLBLAS_BF16(...)  \
  DLBLAS_NORMALIZED(DLBLAS_UNPACK_BF16, "bf16x2", DLBLAS_NO_CAST, __VA_ARGS__)
#define DLBLAS_BF16_CAST(...)  \
  DLBLAS_NORMALIZED(DLBLAS_UNPACK_BF16, "bf16x2", DLBLAS_CAST, __VA_ARGS__)
#define DLBLAS_F16(...)  \
  DLBLAS_NORMALIZED(DLBLAS_UNPACK_F16, "f16x2", DLBLAS_NO_CAST, __VA_ARGS__)
#define DLBLAS_F16_CAST(...)  \
  DLBLAS_NORMALIZED(DLBLAS_UNPACK_F16, "f16x2", DLBLAS_CAST, __VA_ARGS__)

// With four words the results are moved last: otherwise one could overwrite an input not yet read.
#define DLBLAS_NORMALIZE(normalized)                                                            \
  do {                                                                                          \
    if constexpr (kWords == 4)                                                                  \
      asm("{\n .reg .b32 y0, y1, y2, y3;\n"                                                     \
          normalized("y0", "%4", "%8", "%12", "%13", "%14")                                     \
          normalized("y1", "%5", "%9", "%12", "%13", "%14")                                     \
          normalized("y2", "%6", "%10", "%12", "%13", "%14")                                    \
          normalized("y3", "%7", "%11", "%12", "%13", "%14")                                    \
          " mov.b32 %0, y0;\n mov.b32 %1, y1;\n mov.b32 %2, y2;\n mov.b32 %3, y3;\n}"           \
          : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])                                  \
          : "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]), "r"(weights[0]),        \
            "r"(weights[1]), "r"(weights[2]), "r"(weights[3]), "r"(first), "f"(second),         \
            "f"(offset));                                                                       \
    else                                                                                        \
      for (int i = 0; i < kWords; ++i)                                                          \
        asm(normalized("%0", "%1", "%2", "%3", "%4", "%5")                                      \
            : "=r"(to[i])                                                                       \
            : "r"(words[i]), "r"(weights[i]), "r"(first), "f"(second), "f"(offset));            \
  } while (false)
// clang-format on

/// round(round(element · first) · second · (weight + offset)); both halves of a word hold `first`.
/// kCast: what the weight multiplies is rounded, too.
template <DType T, bool kCast, int kWords>
__device__ inline void normalize_words(uint32_t* to, const uint32_t* words, const uint32_t* weights,
                                       uint32_t first, float second, float offset) {
  static_assert(T != DType::kF32 && (kWords == 4 || kWords <= 2));
  if constexpr (T == DType::kBF16 && kCast)
    DLBLAS_NORMALIZE(DLBLAS_BF16_CAST);
  else if constexpr (T == DType::kBF16)
    DLBLAS_NORMALIZE(DLBLAS_BF16);
  else if constexpr (kCast)
    DLBLAS_NORMALIZE(DLBLAS_F16_CAST);
  else
    DLBLAS_NORMALIZE(DLBLAS_F16);
}

}  // namespace dlblas
