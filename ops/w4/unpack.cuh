// Unpacks words of codes to pairs of f16 or bf16. 4 bits: the dequantised weight's values, an exact
// difference and one rounding of the product. 8 bits: the codes, exactly, or times a scale in f32,
// rounded once more. Read next: product_wgmma.cuh, product_ring.cuh, product_rows.cuh.
#pragma once

#include "device/numeric.cuh"

namespace dlblas::w4 {

/// 0x000f000f, in a register that ptxas takes for a variable: an instruction holds one constant, so
/// ptxas would load this one again for each. `size` ≥ 0.
__device__ __forceinline__ uint32_t nibble_mask(int64_t size) {
  return 0x000f000fu ^ static_cast<uint32_t>(size >> 62);
}

/// 0x007f007f, likewise.
__device__ __forceinline__ uint32_t low_bits_mask(int64_t size) {
  return 0x007f007fu ^ static_cast<uint32_t>(size >> 62);
}

/// Codes 2·pair and 2·pair + 1 of a word of four i8, exactly. `low`: low_bits_mask.
template <DType T>
__device__ __forceinline__ uint32_t codes_pair(uint32_t word, int pair, uint32_t low) {
  const uint32_t bytes = pair ? 0x4342 : 0x4140;
  uint32_t y;
  if constexpr (T == DType::kBF16) {
    // Seven bits of mantissa: 128 plus the code's lower bits, minus 128, or 256 if it is negative.
    const uint32_t both = __byte_perm(word, 0, bytes);
    const uint32_t lifted = (both & low) | 0x43004300u, away = (both & ~low) | 0xc300c300u;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(y) : "r"(lifted), "r"(0x3f803f80u), "r"(away));
  } else {
    // 1024 plus the code plus 128, minus 1152.
    const uint32_t lifted = __byte_perm(word ^ 0x80808080u, 0x64646464u, bytes);
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(lifted), "r"(0x64806480u));
  }
  return y;
}

/// The same codes times a scale: products in f32, then rounded to T, as dequantize_group does.
template <DType T>
__device__ __forceinline__ uint32_t scaled_codes_pair(uint32_t word, int pair, float scale) {
  // 2^23 plus the code plus 128.
  const auto code = [&](int i) {
    const uint32_t lifted = __byte_perm(word ^ 0x80808080u, 0x4b000000u, 0x7440 + i);
    return float_from_bits(lifted) - 8388736.0f;
  };
  return pack_pair<T>(code(2 * pair) * scale, code(2 * pair + 1) * scale);
}

/// Pairs of 16-bit numbers in a word: 2^10 (f16) or 2^7 (bf16) plus a nibble each, exactly.
template <DType T>
__device__ __forceinline__ uint32_t lifted_pair(uint32_t nibbles, uint32_t mask = 0x000f000fu) {
  constexpr uint32_t kBase = T == DType::kBF16 ? 0x43004300u : 0x64006400u;
  return (nibbles & mask) | kBase;
}

/// (a − b) · scale: the difference is exact, the product rounded once.
template <DType T>
__device__ __forceinline__ uint32_t scaled_pair(uint32_t a, uint32_t b, uint32_t scale) {
  uint32_t y;
  if constexpr (T == DType::kBF16)
    asm("{\n .reg .b32 d;\n fma.rn.bf16x2 d, %2, %4, %1;\n fma.rn.bf16x2 %0, d, %3, %5;\n}"
        : "=r"(y)
        : "r"(a), "r"(b), "r"(scale), "r"(0xbf80bf80u), "r"(0x80008000u));
  else
    asm("{\n .reg .b32 d;\n sub.rn.f16x2 d, %1, %2;\n mul.rn.f16x2 %0, d, %3;\n}"
        : "=r"(y)
        : "r"(a), "r"(b), "r"(scale));
  return y;
}

/// (a · times + minus) · scale: the sum is exact, the product rounded once.
template <DType T>
__device__ __forceinline__ uint32_t moved_pair(uint32_t a, uint32_t times, uint32_t minus,
                                               uint32_t scale) {
  uint32_t y;
  if constexpr (T == DType::kBF16)
    asm("{\n .reg .b32 d;\n fma.rn.bf16x2 d, %1, %2, %3;\n fma.rn.bf16x2 %0, d, %4, %5;\n}"
        : "=r"(y)
        : "r"(a), "r"(times), "r"(minus), "r"(scale), "r"(0x80008000u));
  else
    asm("{\n .reg .b32 d;\n fma.rn.f16x2 d, %1, %2, %3;\n mul.rn.f16x2 %0, d, %4;\n}"
        : "=r"(y)
        : "r"(a), "r"(times), "r"(minus), "r"(scale));
  return y;
}

}  // namespace dlblas::w4
