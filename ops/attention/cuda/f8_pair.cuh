// Widens two f8 codes to a word of two f16 or bf16 numbers, exactly. Read next: attention_load.cuh,
// paged_attention_lse/paged_decode.cuh.
#pragma once

#include "device/numeric.cuh"

namespace dlblas::attention {

/// Widens two f8 codes in the lower 16 bits to a word of two 16-bit numbers.
template <DType kFrom, DType kTo>
__device__ __forceinline__ uint32_t widen_pair(uint32_t codes) {
#if __CUDA_ARCH__ >= 890
  uint32_t halves;
  if constexpr (kFrom == DType::kF8E4M3)
    asm("{\n .reg .b16 b;\n cvt.u16.u32 b, %1;\n cvt.rn.f16x2.e4m3x2 %0, b;\n}"
        : "=r"(halves)
        : "r"(codes));
  else
    asm("{\n .reg .b16 b;\n cvt.u16.u32 b, %1;\n cvt.rn.f16x2.e5m2x2 %0, b;\n}"
        : "=r"(halves)
        : "r"(codes));
  if constexpr (kTo == DType::kF16) return halves;
  const FloatPair pair = unpack_pair<DType::kF16>(halves);
  return pack_pair<kTo>(pair.low, pair.high);
#else
  return pack_pair<kTo>(unpack_one<kFrom>(codes & 0xffu), unpack_one<kFrom>(codes >> 8 & 0xffu));
#endif
}

}  // namespace dlblas::attention
