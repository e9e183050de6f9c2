// Hopper's warpgroup matrix instruction: 128 threads, D[64, N] += A[64, 16]·B[16, N], both operands
// in shared memory, f16 or bf16 in, f32 accumulators in registers.
// In: descriptors of tiles with the 128-byte swizzle, as TMA loads them. Out: N / 2 floats per
// thread. Also moves registers between warpgroups. Calls need sm_90a; including does not. Order of
// use: wgmma_fence(), wgmma() or wgmma_row() …, wgmma_commit(), wgmma_wait<0>(), wgmma_pin(d).
// Read next: tests/device/wgmma_gemm.cuh (the smallest whole GEMM over these).
#pragma once

#include "device/shared.cuh"

namespace dlblas {

enum class WgmmaInput : int32_t { kF16, kBF16 };

/// Layout of an operand's tile: rows of 64 elements along K (A as [M, K], B as [N, K]), or along M
/// or N (A as [K, M], B as [K, N]).
enum class WgmmaMajor : int32_t { kK = 0, kMN = 1 };

/// A tile of 128-byte rows along K, 128-byte swizzle, at a multiple of 1024 bytes. Each group of 8
/// rows takes 1024 contiguous bytes. For the next 16 of K: wgmma_advance(descriptor, 32).
__device__ __forceinline__ uint64_t wgmma_tile_k(const void* tile) {
  constexpr uint64_t kSwizzle128 = uint64_t(1) << 62, kEightRows = uint64_t(1024 >> 4) << 32;
  return kSwizzle128 | kEightRows | uint64_t(1) << 16 | (shared_address(tile) & 0x3ffff) >> 4;
}

/// A tile whose 128-byte rows are 64 elements of M or N at one K, 128-byte swizzle, at a multiple
/// of 1024 bytes. `next_64_bytes`: distance between groups of 64 of M or N. For the next 16 of K:
/// wgmma_advance(descriptor, 2048).
__device__ __forceinline__ uint64_t wgmma_tile_mn(const void* tile, uint32_t next_64_bytes) {
  constexpr uint64_t kSwizzle128 = uint64_t(1) << 62, kEightRows = uint64_t(1024 >> 4) << 32;
  return kSwizzle128 | kEightRows | uint64_t(next_64_bytes >> 4) << 16 |
         (shared_address(tile) & 0x3ffff) >> 4;
}

/// The descriptor advanced by `bytes`, which may stay inside a swizzled row, since the hardware
/// swizzles the resulting address.
__device__ __forceinline__ uint64_t wgmma_advance(uint64_t descriptor, uint32_t bytes) {
  return descriptor + (bytes >> 4);
}

/// Call before the first wgmma, and again after other instructions have touched its accumulators.
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/// Closes the group of instructions issued since the last commit.
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// Waits until at most `kPending` groups are still running: the operands of the others are free,
/// and after wgmma_pin() their accumulators may be read.
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// Position of d[i] of thread `thread` (of 128) in D[64, N].
__device__ __forceinline__ int32_t wgmma_row(int32_t thread, int32_t i) {
  return thread / 32 * 16 + thread % 32 / 4 + (i & 2) * 4;
}
__device__ __forceinline__ int32_t wgmma_column(int32_t thread, int32_t i) {
  return i / 4 * 8 + thread % 4 * 2 + (i & 1);
}

/// This warpgroup releases registers, down to `kCount` per thread (24 … 256, a multiple of 8),
/// because its warps only issue copies. All its warps call it.
template <int kCount>
__device__ __forceinline__ void release_registers() {
  static_assert(kCount >= 24 && kCount <= 256 && kCount % 8 == 0);
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

/// This warpgroup takes registers, up to `kCount` per thread; waits until they have been released.
template <int kCount>
__device__ __forceinline__ void take_registers() {
  static_assert(kCount >= 24 && kCount <= 256 && kCount % 8 == 0);
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

// The instruction names each of its N / 2 accumulators, so each width has its own text: 32 widths,
// from lists that each append four registers to the previous one. Parsing them all costs a kernel
// about 4 ms (NVRTC 13.0); only the width in use reaches the assembler.
// clang-format off
#define DLBLAS_WGMMA_TEXT_8 "%0, %1, %2, %3"
#define DLBLAS_WGMMA_TEXT_16 DLBLAS_WGMMA_TEXT_8 ", %4, %5, %6, %7"
#define DLBLAS_WGMMA_TEXT_24 DLBLAS_WGMMA_TEXT_16 ", %8, %9, %10, %11"
#define DLBLAS_WGMMA_TEXT_32 DLBLAS_WGMMA_TEXT_24 ", %12, %13, %14, %15"
#define DLBLAS_WGMMA_TEXT_40 DLBLAS_WGMMA_TEXT_32 ", %16, %17, %18, %19"
#define DLBLAS_WGMMA_TEXT_48 DLBLAS_WGMMA_TEXT_40 ", %20, %21, %22, %23"
#define DLBLAS_WGMMA_TEXT_56 DLBLAS_WGMMA_TEXT_48 ", %24, %25, %26, %27"
#define DLBLAS_WGMMA_TEXT_64 DLBLAS_WGMMA_TEXT_56 ", %28, %29, %30, %31"
#define DLBLAS_WGMMA_TEXT_72 DLBLAS_WGMMA_TEXT_64 ", %32, %33, %34, %35"
#define DLBLAS_WGMMA_TEXT_80 DLBLAS_WGMMA_TEXT_72 ", %36, %37, %38, %39"
#define DLBLAS_WGMMA_TEXT_88 DLBLAS_WGMMA_TEXT_80 ", %40, %41, %42, %43"
#define DLBLAS_WGMMA_TEXT_96 DLBLAS_WGMMA_TEXT_88 ", %44, %45, %46, %47"
#define DLBLAS_WGMMA_TEXT_104 DLBLAS_WGMMA_TEXT_96 ", %48, %49, %50, %51"
#define DLBLAS_WGMMA_TEXT_112 DLBLAS_WGMMA_TEXT_104 ", %52, %53, %54, %55"
#define DLBLAS_WGMMA_TEXT_120 DLBLAS_WGMMA_TEXT_112 ", %56, %57, %58, %59"
#define DLBLAS_WGMMA_TEXT_128 DLBLAS_WGMMA_TEXT_120 ", %60, %61, %62, %63"
#define DLBLAS_WGMMA_TEXT_136 DLBLAS_WGMMA_TEXT_128 ", %64, %65, %66, %67"
#define DLBLAS_WGMMA_TEXT_144 DLBLAS_WGMMA_TEXT_136 ", %68, %69, %70, %71"
#define DLBLAS_WGMMA_TEXT_152 DLBLAS_WGMMA_TEXT_144 ", %72, %73, %74, %75"
#define DLBLAS_WGMMA_TEXT_160 DLBLAS_WGMMA_TEXT_152 ", %76, %77, %78, %79"
#define DLBLAS_WGMMA_TEXT_168 DLBLAS_WGMMA_TEXT_160 ", %80, %81, %82, %83"
#define DLBLAS_WGMMA_TEXT_176 DLBLAS_WGMMA_TEXT_168 ", %84, %85, %86, %87"
#define DLBLAS_WGMMA_TEXT_184 DLBLAS_WGMMA_TEXT_176 ", %88, %89, %90, %91"
#define DLBLAS_WGMMA_TEXT_192 DLBLAS_WGMMA_TEXT_184 ", %92, %93, %94, %95"
#define DLBLAS_WGMMA_TEXT_200 DLBLAS_WGMMA_TEXT_192 ", %96, %97, %98, %99"
#define DLBLAS_WGMMA_TEXT_208 DLBLAS_WGMMA_TEXT_200 ", %100, %101, %102, %103"
#define DLBLAS_WGMMA_TEXT_216 DLBLAS_WGMMA_TEXT_208 ", %104, %105, %106, %107"
#define DLBLAS_WGMMA_TEXT_224 DLBLAS_WGMMA_TEXT_216 ", %108, %109, %110, %111"
#define DLBLAS_WGMMA_TEXT_232 DLBLAS_WGMMA_TEXT_224 ", %112, %113, %114, %115"
#define DLBLAS_WGMMA_TEXT_240 DLBLAS_WGMMA_TEXT_232 ", %116, %117, %118, %119"
#define DLBLAS_WGMMA_TEXT_248 DLBLAS_WGMMA_TEXT_240 ", %120, %121, %122, %123"
#define DLBLAS_WGMMA_TEXT_256 DLBLAS_WGMMA_TEXT_248 ", %124, %125, %126, %127"
#define DLBLAS_WGMMA_FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define DLBLAS_WGMMA_OUT_8 DLBLAS_WGMMA_FOUR(0)
#define DLBLAS_WGMMA_OUT_16 DLBLAS_WGMMA_OUT_8, DLBLAS_WGMMA_FOUR(4)
#define DLBLAS_WGMMA_OUT_24 DLBLAS_WGMMA_OUT_16, DLBLAS_WGMMA_FOUR(8)
#define DLBLAS_WGMMA_OUT_32 DLBLAS_WGMMA_OUT_24, DLBLAS_WGMMA_FOUR(12)
#define DLBLAS_WGMMA_OUT_40 DLBLAS_WGMMA_OUT_32, DLBLAS_WGMMA_FOUR(16)
#define DLBLAS_WGMMA_OUT_48 DLBLAS_WGMMA_OUT_40, DLBLAS_WGMMA_FOUR(20)
#define DLBLAS_WGMMA_OUT_56 DLBLAS_WGMMA_OUT_48, DLBLAS_WGMMA_FOUR(24)
#define DLBLAS_WGMMA_OUT_64 DLBLAS_WGMMA_OUT_56, DLBLAS_WGMMA_FOUR(28)
#define DLBLAS_WGMMA_OUT_72 DLBLAS_WGMMA_OUT_64, DLBLAS_WGMMA_FOUR(32)
#define DLBLAS_WGMMA_OUT_80 DLBLAS_WGMMA_OUT_72, DLBLAS_WGMMA_FOUR(36)
#define DLBLAS_WGMMA_OUT_88 DLBLAS_WGMMA_OUT_80, DLBLAS_WGMMA_FOUR(40)
#define DLBLAS_WGMMA_OUT_96 DLBLAS_WGMMA_OUT_88, DLBLAS_WGMMA_FOUR(44)
#define DLBLAS_WGMMA_OUT_104 DLBLAS_WGMMA_OUT_96, DLBLAS_WGMMA_FOUR(48)
#define DLBLAS_WGMMA_OUT_112 DLBLAS_WGMMA_OUT_104, DLBLAS_WGMMA_FOUR(52)
#define DLBLAS_WGMMA_OUT_120 DLBLAS_WGMMA_OUT_112, DLBLAS_WGMMA_FOUR(56)
#define DLBLAS_WGMMA_OUT_128 DLBLAS_WGMMA_OUT_120, DLBLAS_WGMMA_FOUR(60)
#define DLBLAS_WGMMA_OUT_136 DLBLAS_WGMMA_OUT_128, DLBLAS_WGMMA_FOUR(64)
#define DLBLAS_WGMMA_OUT_144 DLBLAS_WGMMA_OUT_136, DLBLAS_WGMMA_FOUR(68)
#define DLBLAS_WGMMA_OUT_152 DLBLAS_WGMMA_OUT_144, DLBLAS_WGMMA_FOUR(72)
#define DLBLAS_WGMMA_OUT_160 DLBLAS_WGMMA_OUT_152, DLBLAS_WGMMA_FOUR(76)
#define DLBLAS_WGMMA_OUT_168 DLBLAS_WGMMA_OUT_160, DLBLAS_WGMMA_FOUR(80)
#define DLBLAS_WGMMA_OUT_176 DLBLAS_WGMMA_OUT_168, DLBLAS_WGMMA_FOUR(84)
#define DLBLAS_WGMMA_OUT_184 DLBLAS_WGMMA_OUT_176, DLBLAS_WGMMA_FOUR(88)
#define DLBLAS_WGMMA_OUT_192 DLBLAS_WGMMA_OUT_184, DLBLAS_WGMMA_FOUR(92)
#define DLBLAS_WGMMA_OUT_200 DLBLAS_WGMMA_OUT_192, DLBLAS_WGMMA_FOUR(96)
#define DLBLAS_WGMMA_OUT_208 DLBLAS_WGMMA_OUT_200, DLBLAS_WGMMA_FOUR(100)
#define DLBLAS_WGMMA_OUT_216 DLBLAS_WGMMA_OUT_208, DLBLAS_WGMMA_FOUR(104)
#define DLBLAS_WGMMA_OUT_224 DLBLAS_WGMMA_OUT_216, DLBLAS_WGMMA_FOUR(108)
#define DLBLAS_WGMMA_OUT_232 DLBLAS_WGMMA_OUT_224, DLBLAS_WGMMA_FOUR(112)
#define DLBLAS_WGMMA_OUT_240 DLBLAS_WGMMA_OUT_232, DLBLAS_WGMMA_FOUR(116)
#define DLBLAS_WGMMA_OUT_248 DLBLAS_WGMMA_OUT_240, DLBLAS_WGMMA_FOUR(120)
#define DLBLAS_WGMMA_OUT_256 DLBLAS_WGMMA_OUT_248, DLBLAS_WGMMA_FOUR(124)
// clang-format on

#define DLBLAS_WGMMA_TYPED(n, type, a_at, b_at, use_at, ta_at, tb_at)                         \
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, " use_at                                 \
               ", 0;\n\t"                                                                     \
               "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type                \
               " {" DLBLAS_WGMMA_TEXT_##n "}, " a_at ", " b_at ", p, 1, 1, " ta_at ", " tb_at \
                                          ";\n}"                                              \
               : DLBLAS_WGMMA_OUT_##n                                                         \
               : "l"(a), "l"(b), "r"(accumulate), "n"(static_cast<int32_t>(kA)),              \
                 "n"(static_cast<int32_t>(kB)))
#define DLBLAS_WGMMA(n, ...)                      \
  if constexpr (kN == n) {                        \
    if constexpr (kInput == WgmmaInput::kF16)     \
      DLBLAS_WGMMA_TYPED(n, "f16", __VA_ARGS__);  \
    else                                          \
      DLBLAS_WGMMA_TYPED(n, "bf16", __VA_ARGS__); \
  }

/// d = A·B (+ d where accumulate is not 0): one step of 16 along K. kN: multiples of 8 up to 256.
/// Asynchronous: d and the tiles belong to the instruction until wgmma_wait.
template <int kN, WgmmaInput kInput, WgmmaMajor kA = WgmmaMajor::kK, WgmmaMajor kB = WgmmaMajor::kK>
__device__ __forceinline__ void wgmma(float (&d)[kN / 2], uint64_t a, uint64_t b,
                                      int32_t accumulate) {
  static_assert(kN >= 8 && kN <= 256 && kN % 8 == 0, "the widths that the instruction has");
  // clang-format off
  DLBLAS_WGMMA(8, "%4", "%5", "%6", "%7", "%8")
  DLBLAS_WGMMA(16, "%8", "%9", "%10", "%11", "%12")
  DLBLAS_WGMMA(24, "%12", "%13", "%14", "%15", "%16")
  DLBLAS_WGMMA(32, "%16", "%17", "%18", "%19", "%20")
  DLBLAS_WGMMA(40, "%20", "%21", "%22", "%23", "%24")
  DLBLAS_WGMMA(48, "%24", "%25", "%26", "%27", "%28")
  DLBLAS_WGMMA(56, "%28", "%29", "%30", "%31", "%32")
  DLBLAS_WGMMA(64, "%32", "%33", "%34", "%35", "%36")
  DLBLAS_WGMMA(72, "%36", "%37", "%38", "%39", "%40")
  DLBLAS_WGMMA(80, "%40", "%41", "%42", "%43", "%44")
  DLBLAS_WGMMA(88, "%44", "%45", "%46", "%47", "%48")
  DLBLAS_WGMMA(96, "%48", "%49", "%50", "%51", "%52")
  DLBLAS_WGMMA(104, "%52", "%53", "%54", "%55", "%56")
  DLBLAS_WGMMA(112, "%56", "%57", "%58", "%59", "%60")
  DLBLAS_WGMMA(120, "%60", "%61", "%62", "%63", "%64")
  DLBLAS_WGMMA(128, "%64", "%65", "%66", "%67", "%68")
  DLBLAS_WGMMA(136, "%68", "%69", "%70", "%71", "%72")
  DLBLAS_WGMMA(144, "%72", "%73", "%74", "%75", "%76")
  DLBLAS_WGMMA(152, "%76", "%77", "%78", "%79", "%80")
  DLBLAS_WGMMA(160, "%80", "%81", "%82", "%83", "%84")
  DLBLAS_WGMMA(168, "%84", "%85", "%86", "%87", "%88")
  DLBLAS_WGMMA(176, "%88", "%89", "%90", "%91", "%92")
  DLBLAS_WGMMA(184, "%92", "%93", "%94", "%95", "%96")
  DLBLAS_WGMMA(192, "%96", "%97", "%98", "%99", "%100")
  DLBLAS_WGMMA(200, "%100", "%101", "%102", "%103", "%104")
  DLBLAS_WGMMA(208, "%104", "%105", "%106", "%107", "%108")
  DLBLAS_WGMMA(216, "%108", "%109", "%110", "%111", "%112")
  DLBLAS_WGMMA(224, "%112", "%113", "%114", "%115", "%116")
  DLBLAS_WGMMA(232, "%116", "%117", "%118", "%119", "%120")
  DLBLAS_WGMMA(240, "%120", "%121", "%122", "%123", "%124")
  DLBLAS_WGMMA(248, "%124", "%125", "%126", "%127", "%128")
  DLBLAS_WGMMA(256, "%128", "%129", "%130", "%131", "%132")
  // clang-format on
}

// A row of the swizzle spans 64 along K, four instructions; one statement for all four costs the
// compiler a quarter of the time of four.
#define DLBLAS_STEP(n, type, a_at, b_at, use, ta_at, tb_at)                                  \
  "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" DLBLAS_WGMMA_TEXT_##n \
      "}, " a_at ", " b_at ", " use ", 1, 1, " ta_at ", " tb_at ";\n\t"
#define DLBLAS_NEXT(a_at, b_at, da_at, db_at) \
  "add.s64 a, " a_at ", " da_at ";\n\tadd.s64 b, " b_at ", " db_at ";\n\t"
#define DLBLAS_WGMMA_ROW_TYPED(n, type, a_at, b_at, use_at, ta_at, tb_at, da_at, db_at)          \
  asm volatile("{\n\t.reg .pred p;\n\t.reg .b64 a, b;\n\tsetp.ne.b32 p, " use_at                 \
               ", 0;\n\t" DLBLAS_STEP(n, type, a_at, b_at, "p", ta_at, tb_at) DLBLAS_NEXT(       \
                   a_at, b_at, da_at, db_at) DLBLAS_STEP(n, type, "a", "b", "1", ta_at, tb_at)   \
                   DLBLAS_NEXT("a", "b", da_at, db_at) DLBLAS_STEP(                              \
                       n, type, "a", "b", "1", ta_at, tb_at) DLBLAS_NEXT("a", "b", da_at, db_at) \
                       DLBLAS_STEP(n, type, "a", "b", "1", ta_at, tb_at) "}"                     \
               : DLBLAS_WGMMA_OUT_##n                                                            \
               : "l"(a), "l"(b), "r"(accumulate), "n"(static_cast<int32_t>(kA)),                 \
                 "n"(static_cast<int32_t>(kB)), "n"(kA == WgmmaMajor::kK ? 2 : 128),             \
                 "n"(kB == WgmmaMajor::kK ? 2 : 128))
#define DLBLAS_WGMMA_ROW(n, ...)                      \
  if constexpr (kN == n) {                            \
    if constexpr (kInput == WgmmaInput::kF16)         \
      DLBLAS_WGMMA_ROW_TYPED(n, "f16", __VA_ARGS__);  \
    else                                              \
      DLBLAS_WGMMA_ROW_TYPED(n, "bf16", __VA_ARGS__); \
  }

/// d = A·B (+ d where accumulate is not 0) for 64 along K: four steps of wgmma().
template <int kN, WgmmaInput kInput, WgmmaMajor kA = WgmmaMajor::kK, WgmmaMajor kB = WgmmaMajor::kK>
__device__ __forceinline__ void wgmma_row(float (&d)[kN / 2], uint64_t a, uint64_t b,
                                          int32_t accumulate) {
  static_assert(kN >= 8 && kN <= 256 && kN % 8 == 0, "the widths that the instruction has");
  // clang-format off
  DLBLAS_WGMMA_ROW(8, "%4", "%5", "%6", "%7", "%8", "%9", "%10")
  DLBLAS_WGMMA_ROW(16, "%8", "%9", "%10", "%11", "%12", "%13", "%14")
  DLBLAS_WGMMA_ROW(24, "%12", "%13", "%14", "%15", "%16", "%17", "%18")
  DLBLAS_WGMMA_ROW(32, "%16", "%17", "%18", "%19", "%20", "%21", "%22")
  DLBLAS_WGMMA_ROW(40, "%20", "%21", "%22", "%23", "%24", "%25", "%26")
  DLBLAS_WGMMA_ROW(48, "%24", "%25", "%26", "%27", "%28", "%29", "%30")
  DLBLAS_WGMMA_ROW(56, "%28", "%29", "%30", "%31", "%32", "%33", "%34")
  DLBLAS_WGMMA_ROW(64, "%32", "%33", "%34", "%35", "%36", "%37", "%38")
  DLBLAS_WGMMA_ROW(72, "%36", "%37", "%38", "%39", "%40", "%41", "%42")
  DLBLAS_WGMMA_ROW(80, "%40", "%41", "%42", "%43", "%44", "%45", "%46")
  DLBLAS_WGMMA_ROW(88, "%44", "%45", "%46", "%47", "%48", "%49", "%50")
  DLBLAS_WGMMA_ROW(96, "%48", "%49", "%50", "%51", "%52", "%53", "%54")
  DLBLAS_WGMMA_ROW(104, "%52", "%53", "%54", "%55", "%56", "%57", "%58")
  DLBLAS_WGMMA_ROW(112, "%56", "%57", "%58", "%59", "%60", "%61", "%62")
  DLBLAS_WGMMA_ROW(120, "%60", "%61", "%62", "%63", "%64", "%65", "%66")
  DLBLAS_WGMMA_ROW(128, "%64", "%65", "%66", "%67", "%68", "%69", "%70")
  DLBLAS_WGMMA_ROW(136, "%68", "%69", "%70", "%71", "%72", "%73", "%74")
  DLBLAS_WGMMA_ROW(144, "%72", "%73", "%74", "%75", "%76", "%77", "%78")
  DLBLAS_WGMMA_ROW(152, "%76", "%77", "%78", "%79", "%80", "%81", "%82")
  DLBLAS_WGMMA_ROW(160, "%80", "%81", "%82", "%83", "%84", "%85", "%86")
  DLBLAS_WGMMA_ROW(168, "%84", "%85", "%86", "%87", "%88", "%89", "%90")
  DLBLAS_WGMMA_ROW(176, "%88", "%89", "%90", "%91", "%92", "%93", "%94")
  DLBLAS_WGMMA_ROW(184, "%92", "%93", "%94", "%95", "%96", "%97", "%98")
  DLBLAS_WGMMA_ROW(192, "%96", "%97", "%98", "%99", "%100", "%101", "%102")
  DLBLAS_WGMMA_ROW(200, "%100", "%101", "%102", "%103", "%104", "%105", "%106")
  DLBLAS_WGMMA_ROW(208, "%104", "%105", "%106", "%107", "%108", "%109", "%110")
  DLBLAS_WGMMA_ROW(216, "%108", "%109", "%110", "%111", "%112", "%113", "%114")
  DLBLAS_WGMMA_ROW(224, "%112", "%113", "%114", "%115", "%116", "%117", "%118")
  DLBLAS_WGMMA_ROW(232, "%116", "%117", "%118", "%119", "%120", "%121", "%122")
  DLBLAS_WGMMA_ROW(240, "%120", "%121", "%122", "%123", "%124", "%125", "%126")
  DLBLAS_WGMMA_ROW(248, "%124", "%125", "%126", "%127", "%128", "%129", "%130")
  DLBLAS_WGMMA_ROW(256, "%128", "%129", "%130", "%131", "%132", "%133", "%134")
  // clang-format on
}
#undef DLBLAS_WGMMA_ROW
#undef DLBLAS_WGMMA_ROW_TYPED
#undef DLBLAS_NEXT
#undef DLBLAS_STEP

// A from registers: four words per thread of A[64, 16], in the layout of two neighbouring groups of
// 8 accumulator columns rounded to 16 bits.
#define DLBLAS_WGMMA_RS(n, type, a0, a1, a2, a3, b_at, tb_at)                            \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type           \
               " {" DLBLAS_WGMMA_TEXT_##n "}, {" a0 ", " a1 ", " a2 ", " a3 "}, " b_at   \
                                          ", 1, 1, 1, " tb_at ";"                        \
               : DLBLAS_WGMMA_OUT_##n                                                    \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                     \
                 "n"(static_cast<int32_t>(kB)))
#define DLBLAS_RS(n, ...)                      \
  if constexpr (kN == n) {                     \
    if constexpr (kInput == WgmmaInput::kF16)  \
      DLBLAS_WGMMA_RS(n, "f16", __VA_ARGS__);  \
    else                                       \
      DLBLAS_WGMMA_RS(n, "bf16", __VA_ARGS__); \
  }
/// d += A·B, one step of 16 along K. The words of A, too, belong to it until wgmma_wait.
template <int kN, WgmmaInput kInput, WgmmaMajor kB = WgmmaMajor::kMN>
__device__ __forceinline__ void wgmma_from_registers(float (&d)[kN / 2], const uint32_t* a,
                                                     uint64_t b) {
  static_assert(kN >= 8 && kN <= 256 && kN % 8 == 0, "the widths that the instruction has");
  // clang-format off
  DLBLAS_RS(8, "%4", "%5", "%6", "%7", "%8", "%9")
  DLBLAS_RS(16, "%8", "%9", "%10", "%11", "%12", "%13")
  DLBLAS_RS(24, "%12", "%13", "%14", "%15", "%16", "%17")
  DLBLAS_RS(32, "%16", "%17", "%18", "%19", "%20", "%21")
  DLBLAS_RS(40, "%20", "%21", "%22", "%23", "%24", "%25")
  DLBLAS_RS(48, "%24", "%25", "%26", "%27", "%28", "%29")
  DLBLAS_RS(56, "%28", "%29", "%30", "%31", "%32", "%33")
  DLBLAS_RS(64, "%32", "%33", "%34", "%35", "%36", "%37")
  DLBLAS_RS(72, "%36", "%37", "%38", "%39", "%40", "%41")
  DLBLAS_RS(80, "%40", "%41", "%42", "%43", "%44", "%45")
  DLBLAS_RS(88, "%44", "%45", "%46", "%47", "%48", "%49")
  DLBLAS_RS(96, "%48", "%49", "%50", "%51", "%52", "%53")
  DLBLAS_RS(104, "%52", "%53", "%54", "%55", "%56", "%57")
  DLBLAS_RS(112, "%56", "%57", "%58", "%59", "%60", "%61")
  DLBLAS_RS(120, "%60", "%61", "%62", "%63", "%64", "%65")
  DLBLAS_RS(128, "%64", "%65", "%66", "%67", "%68", "%69")
  DLBLAS_RS(136, "%68", "%69", "%70", "%71", "%72", "%73")
  DLBLAS_RS(144, "%72", "%73", "%74", "%75", "%76", "%77")
  DLBLAS_RS(152, "%76", "%77", "%78", "%79", "%80", "%81")
  DLBLAS_RS(160, "%80", "%81", "%82", "%83", "%84", "%85")
  DLBLAS_RS(168, "%84", "%85", "%86", "%87", "%88", "%89")
  DLBLAS_RS(176, "%88", "%89", "%90", "%91", "%92", "%93")
  DLBLAS_RS(184, "%92", "%93", "%94", "%95", "%96", "%97")
  DLBLAS_RS(192, "%96", "%97", "%98", "%99", "%100", "%101")
  DLBLAS_RS(200, "%100", "%101", "%102", "%103", "%104", "%105")
  DLBLAS_RS(208, "%104", "%105", "%106", "%107", "%108", "%109")
  DLBLAS_RS(216, "%108", "%109", "%110", "%111", "%112", "%113")
  DLBLAS_RS(224, "%112", "%113", "%114", "%115", "%116", "%117")
  DLBLAS_RS(232, "%116", "%117", "%118", "%119", "%120", "%121")
  DLBLAS_RS(240, "%120", "%121", "%122", "%123", "%124", "%125")
  DLBLAS_RS(248, "%124", "%125", "%126", "%127", "%128", "%129")
  DLBLAS_RS(256, "%128", "%129", "%130", "%131", "%132", "%133")
  // clang-format on
}
#undef DLBLAS_RS
#undef DLBLAS_WGMMA_RS

#define DLBLAS_PIN(n) \
  if constexpr (2 * kCount == n) asm volatile("" : DLBLAS_WGMMA_OUT_##n::"memory");
/// Keeps the compiler from moving uses of the accumulators across a wait: it cannot know that they
/// are written later than the instruction that names them. One statement for all of a width.
template <int kCount>
__device__ __forceinline__ void wgmma_pin(float (&d)[kCount]) {
  static_assert(kCount >= 4 && kCount <= 128 && kCount % 4 == 0, "the accumulators of a width");
  // clang-format off
  DLBLAS_PIN(8) DLBLAS_PIN(16) DLBLAS_PIN(24) DLBLAS_PIN(32) DLBLAS_PIN(40) DLBLAS_PIN(48)
  DLBLAS_PIN(56) DLBLAS_PIN(64) DLBLAS_PIN(72) DLBLAS_PIN(80) DLBLAS_PIN(88) DLBLAS_PIN(96)
  DLBLAS_PIN(104) DLBLAS_PIN(112) DLBLAS_PIN(120) DLBLAS_PIN(128) DLBLAS_PIN(136) DLBLAS_PIN(144)
  DLBLAS_PIN(152) DLBLAS_PIN(160) DLBLAS_PIN(168) DLBLAS_PIN(176) DLBLAS_PIN(184) DLBLAS_PIN(192)
  DLBLAS_PIN(200) DLBLAS_PIN(208) DLBLAS_PIN(216) DLBLAS_PIN(224) DLBLAS_PIN(232) DLBLAS_PIN(240)
  DLBLAS_PIN(248) DLBLAS_PIN(256)
  // clang-format on
}
#undef DLBLAS_PIN

#undef DLBLAS_WGMMA
#undef DLBLAS_WGMMA_TYPED
#undef DLBLAS_WGMMA_FOUR

}  // namespace dlblas
