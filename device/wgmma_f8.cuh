// Hopper's warpgroup matrix instruction for f8, as attention uses it: D[64, N] += A[64, 32]·B[32,
// N] of e4m3 or e5m2 into f32, both operands along K in shared memory, with rows of 64 or 128
// bytes. The accumulators keep 13 bits below the largest term that an instruction adds. Calls need
// sm_90a; including does not. Read next: device/wgmma_codes.cuh (a row at a time, for GEMM),
// ops/attention/cuda/attention_wgmma.cuh.
#pragma once

#include "device/wgmma.cuh"

namespace dlblas {

/// A tile along K with rows and a swizzle of kRow bytes: 128, as in wgmma_tile_k(), or 64, at a
/// multiple of 512 bytes. For the next 32 of K: wgmma_advance(descriptor, 32).
template <int kRow>
__device__ __forceinline__ uint64_t wgmma_tile_rows(const void* tile) {
  static_assert(kRow == 64 || kRow == 128);
  constexpr uint64_t kSwizzle = uint64_t(kRow == 128 ? 1 : 2) << 62;
  constexpr uint64_t kEightRows = uint64_t(8 * kRow >> 4) << 32;
  return kSwizzle | kEightRows | uint64_t(1) << 16 | (shared_address(tile) & 0x3ffff) >> 4;
}

#define DLBLAS_F8_STEP(n, type, a_at, b_at, use)                                             \
  "wgmma.mma_async.sync.aligned.m64n" #n "k32.f32." type "." type " {" DLBLAS_WGMMA_TEXT_##n \
      "}, " a_at ", " b_at ", " use ", 1, 1;\n\t"
#define DLBLAS_F8_TYPED(n, type, a_at, b_at, use_at)                                               \
  asm volatile("{\n\t.reg .pred p;\n\t.reg .b64 a, b;\n\tsetp.ne.b32 p, " use_at                   \
               ", 0;\n\t" DLBLAS_F8_STEP(                                                          \
                   n, type, a_at, b_at, "p") "add.s64 a, " a_at ", 2;\n\tadd.s64 b, " b_at         \
                                             ", 2;\n\t" DLBLAS_F8_STEP(n, type, "a", "b", "1") "}" \
               : DLBLAS_WGMMA_OUT_##n                                                              \
               : "l"(a), "l"(b), "r"(accumulate))
#define DLBLAS_F8(n, ...)                      \
  if constexpr (2 * kCount == n) {             \
    if constexpr (kType == DType::kF8E4M3)     \
      DLBLAS_F8_TYPED(n, "e4m3", __VA_ARGS__); \
    else                                       \
      DLBLAS_F8_TYPED(n, "e5m2", __VA_ARGS__); \
  }
#define DLBLAS_WGMMA_FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])

/// d = A·B (+ d where accumulate is not 0) for 64 along K: two steps.
template <DType kType, int kCount>
__device__ __forceinline__ void wgmma_f8(float (&d)[kCount], uint64_t a, uint64_t b,
                                         int32_t accumulate) {
  constexpr int kN = 2 * kCount;
  static_assert(kN >= 64 && kN <= 192 && kN % 16 == 0, "the widths that are used");
  // clang-format off
  DLBLAS_F8(64, "%32", "%33", "%34")
  DLBLAS_F8(80, "%40", "%41", "%42")
  DLBLAS_F8(96, "%48", "%49", "%50")
  DLBLAS_F8(112, "%56", "%57", "%58")
  DLBLAS_F8(128, "%64", "%65", "%66")
  DLBLAS_F8(144, "%72", "%73", "%74")
  DLBLAS_F8(160, "%80", "%81", "%82")
  DLBLAS_F8(176, "%88", "%89", "%90")
  DLBLAS_F8(192, "%96", "%97", "%98")
  // clang-format on
}

#undef DLBLAS_F8
#undef DLBLAS_F8_STEP
#undef DLBLAS_F8_TYPED
#undef DLBLAS_WGMMA_FOUR

}  // namespace dlblas
