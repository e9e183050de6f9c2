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
template <DType T>
__device__ __forceinline__ uint32_t finite_part(uint32_t word) {
  constexpr uint32_t kLow = T == DType::kBF16 ? 0x7f80u : 0x7c00u, kHigh = kLow << 16;
  if ((word & kLow) == kLow) word &= 0xffff0000u;
  if ((word & kHigh) == kHigh) word &= 0x0000ffffu;
  return word;
}

}  // namespace dlblas::attention
