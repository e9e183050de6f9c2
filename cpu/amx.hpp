// AMX: eight tiles of 16 rows × 64 bytes, and the products between them.
// In: memory that a Tiles scope may read and write. Out: tiles, which belong to the thread.
// A tile of sums has 16 × 16 values of 32 bits. An operand's tile has 16 rows of 32 bf16 or 64 i8;
// the other operand's has pairs (fours) of terms side by side. Compiled only with -mamx-tile.
// Read next: cpu/gemm/pairs.hpp.
#pragma once

#include "cpu/simd.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

constexpr int kTileRows = 16, kTileRowBytes = 64, kTileBytes = kTileRows * kTileRowBytes;

/// All eight tiles are 16 rows of 64 bytes.
struct TileSetup {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t columns[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
/// A thread's tiles, until the end of a scope.
struct Tiles {
  Tiles() {
    alignas(64) static constexpr TileSetup kSetup;
    __asm__ volatile("ldtilecfg %0" : : "m"(kSetup) : "memory");
  }
  ~Tiles() { __asm__ volatile("tilerelease" : : : "memory"); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
};

// Not g++ 12's intrinsics, which do not declare that they read and write memory.
template <int kTile>
DLBLAS_INLINE void load_tile(const void* from, int64_t pitch) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2"
                   :
                   : "r"(from), "r"(pitch), "i"(kTile)
                   : "memory");
}
template <int kTile>
DLBLAS_INLINE void store_tile(void* to, int64_t pitch) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(pitch), "i"(kTile) : "memory");
}
template <int kTile>
DLBLAS_INLINE void zero_tile() {
  __asm__ volatile("tilezero %%tmm%c0" : : "i"(kTile));
}
/// kSum += a · b of bf16: b has rows of pairs, terms 2i and 2i + 1 for 16 columns.
template <int kSum, int kA, int kB>
DLBLAS_INLINE void multiply_bf16() {
  __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
}
/// kSum += a · b of i8, i32 sums that wrap around: b has rows of four terms for 16 columns.
template <int kSum, int kA, int kB>
DLBLAS_INLINE void multiply_i8() {
  __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
