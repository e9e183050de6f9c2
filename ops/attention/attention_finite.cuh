// Words of two f16 or bf16 values: whether both are finite, and the finite part. Read next:
// attention_mma.cuh, attention_wgmma.cuh.
#pragma once

#include "device/numeric.cuh"

namespace dlblas::attention {

/// True if an element of the word is NaN or infinite.
template <DType T>
__device__ __forceinline__ bool not_finite(uint32_t word) {
  constexpr uint32_t kLow = T == DType::kBF16 ? 0x7f80u : 0x7c00u, kHigh = kLow << 16;
  return (word & kLow) == kLow || (word & kHigh) == kHigh;
}
/// Adds 0 · word to `sum`, two elements at a time: 0 while all are finite, then NaN for good. For
/// not_finite(sum), after the last word.
template <DType T>
__device__ __forceinline__ void meet_finite(uint32_t& sum, uint32_t word) {
  if constexpr (T == DType::kBF16)
    asm("fma.rn.bf16x2 %0, %1, %2, %0;" : "+r"(sum) : "r"(word), "r"(0u));
  else
    asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(sum) : "r"(word), "r"(0u));
}
template <DType T>
__device__ __forceinline__ uint32_t finite_part(uint32_t word) {
  constexpr uint32_t kLow = T == DType::kBF16 ? 0x7f80u : 0x7c00u, kHigh = kLow << 16;
  if ((word & kLow) == kLow) word &= 0xffff0000u;
  if ((word & kHigh) == kHigh) word &= 0x0000ffffu;
  return word;
}

}  // namespace dlblas::attention
