// Unpacks words of 4-bit weights to pairs of f16 or bf16 with the dequantised weight's values: an
// exact difference, one rounding of the product. Read next: product_wgmma.cuh, product_ring.cuh.
#pragma once

#include "device/types.hpp"

namespace dlblas::w4 {

/// 0x000f000f, in a register that ptxas takes for a variable: an instruction holds one constant, so
/// ptxas would load this one again for each. `size` ≥ 0.
__device__ __forceinline__ uint32_t nibble_mask(int64_t size) {
  return 0x000f000fu ^ static_cast<uint32_t>(size >> 62);
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
