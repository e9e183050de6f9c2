// Hopper's warpgroup matrix instruction for 1-byte elements: D[64, N] += A[64, 32]·B[32, N], e4m3
// into f32 or i8 into i32, both operands along K in shared memory, as in device/wgmma.cuh for f16.
// The f32 accumulators of e4m3 keep 14 bits: move them to other sums every 128 of K. Calls need
// sm_90a; including does not. Read next: device/wgmma.cuh, device/gemm/wgmma_codes.cuh.
#pragma once

#include "device/wgmma.cuh"

namespace dlblas {

#define DLBLAS_CODES_STEP(n, types, a_at, b_at, use, signs)                      \
  "wgmma.mma_async.sync.aligned.m64n" #n "k32." types " {" DLBLAS_WGMMA_TEXT_##n \
      "}, " a_at ", " b_at ", " use signs ";\n\t"
#define DLBLAS_CODES_NEXT(a_at, b_at) "add.s64 a, " a_at ", 2;\n\tadd.s64 b, " b_at ", 2;\n\t"
#define DLBLAS_CODES(n, types, a_at, b_at, use_at, signs)                                          \
  if constexpr (2 * kCount == n)                                                                   \
    asm volatile("{\n\t.reg .pred p;\n\t.reg .b64 a, b;\n\tsetp.ne.b32 p, " use_at                 \
                 ", 0;\n\t" DLBLAS_CODES_STEP(n, types, a_at, b_at, "p", signs) DLBLAS_CODES_NEXT( \
                     a_at, b_at) DLBLAS_CODES_STEP(n, types, "a", "b", "1", signs)                 \
                     DLBLAS_CODES_NEXT("a", "b") DLBLAS_CODES_STEP(n, types, "a", "b", "1", signs) \
                         DLBLAS_CODES_NEXT("a", "b")                                               \
                             DLBLAS_CODES_STEP(n, types, "a", "b", "1", signs) "}"                 \
                 : DLBLAS_WGMMA_OUT_##n                                                            \
                 : "l"(a), "l"(b), "r"(accumulate));
#define DLBLAS_CODES_PIN(n) \
  if constexpr (2 * kCount == n) asm volatile("" : DLBLAS_WGMMA_OUT_##n::"memory");

/// The widths in use, a subset of the instruction's.
constexpr bool wgmma_codes_has(int n) {
  return n == 16 || n == 32 || n == 64 || n == 96 || n == 112 || n == 128 || n == 176 || n == 192;
}

/// d = A·B (+ d where accumulate is not 0) for one swizzle row, 128 along K: four steps.
template <int kCount>
__device__ __forceinline__ void wgmma_codes(float (&d)[kCount], uint64_t a, uint64_t b,
                                            int32_t accumulate) {
  static_assert(wgmma_codes_has(2 * kCount));
#define DLBLAS_WGMMA_FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
  // clang-format off
  DLBLAS_CODES(16, "f32.e4m3.e4m3", "%8", "%9", "%10", ", 1, 1")
  DLBLAS_CODES(32, "f32.e4m3.e4m3", "%16", "%17", "%18", ", 1, 1")
  DLBLAS_CODES(64, "f32.e4m3.e4m3", "%32", "%33", "%34", ", 1, 1")
  DLBLAS_CODES(96, "f32.e4m3.e4m3", "%48", "%49", "%50", ", 1, 1")
  DLBLAS_CODES(112, "f32.e4m3.e4m3", "%56", "%57", "%58", ", 1, 1")
  DLBLAS_CODES(128, "f32.e4m3.e4m3", "%64", "%65", "%66", ", 1, 1")
  DLBLAS_CODES(176, "f32.e4m3.e4m3", "%88", "%89", "%90", ", 1, 1")
  DLBLAS_CODES(192, "f32.e4m3.e4m3", "%96", "%97", "%98", ", 1, 1")
  // clang-format on
#undef DLBLAS_WGMMA_FOUR
}

template <int kCount>
__device__ __forceinline__ void wgmma_codes(int32_t (&d)[kCount], uint64_t a, uint64_t b,
                                            int32_t accumulate) {
  static_assert(wgmma_codes_has(2 * kCount));
#define DLBLAS_WGMMA_FOUR(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])
  // clang-format off
  DLBLAS_CODES(16, "s32.s8.s8", "%8", "%9", "%10", "")
  DLBLAS_CODES(32, "s32.s8.s8", "%16", "%17", "%18", "")
  DLBLAS_CODES(64, "s32.s8.s8", "%32", "%33", "%34", "")
  DLBLAS_CODES(96, "s32.s8.s8", "%48", "%49", "%50", "")
  DLBLAS_CODES(112, "s32.s8.s8", "%56", "%57", "%58", "")
  DLBLAS_CODES(128, "s32.s8.s8", "%64", "%65", "%66", "")
  DLBLAS_CODES(176, "s32.s8.s8", "%88", "%89", "%90", "")
  DLBLAS_CODES(192, "s32.s8.s8", "%96", "%97", "%98", "")
  // clang-format on
}

/// wgmma_pin for i32 accumulators.
template <int kCount>
__device__ __forceinline__ void wgmma_pin(int32_t (&d)[kCount]) {
  // clang-format off
  DLBLAS_CODES_PIN(16) DLBLAS_CODES_PIN(32) DLBLAS_CODES_PIN(64) DLBLAS_CODES_PIN(96)
  DLBLAS_CODES_PIN(112) DLBLAS_CODES_PIN(128) DLBLAS_CODES_PIN(176) DLBLAS_CODES_PIN(192)
  // clang-format on
#undef DLBLAS_WGMMA_FOUR
}

#undef DLBLAS_CODES
#undef DLBLAS_CODES_NEXT
#undef DLBLAS_CODES_PIN
#undef DLBLAS_CODES_STEP

}  // namespace dlblas
