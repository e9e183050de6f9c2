// The warp-level matrix instruction (sm_80 and later): D[16, 8] += A[16, 16]·B[16, 8], f16 or bf16
// in, f32 accumulators in registers; and loads of 8×8 tiles from shared memory into its layout.
// With g = lane / 4 and q = lane % 4, a thread holds
//   A: {[g, 2q..], [g+8, 2q..], [g, 2q+8..], [g+8, 2q+8..]}, two values of K in a register
//   B: {[2q.., g], [2q+8.., g]}                              D: {[g, 2q..], [g+8, 2q..]}
// The order of K is free as long as A and B share it. Read next: device/mma_tile.cuh.
#pragma once

#include "device/types.hpp"

namespace dlblas {

template <bool kBf16>
__device__ __forceinline__ void mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                            uint32_t b1) {
  if constexpr (kBf16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

/// Four 8×8 tiles of 16-bit values: lane 8i + r gives the address of row r of tile i, and register
/// i of every thread receives its pair of tile i. Rows are 16 bytes, aligned. `kTranspose`
/// transposes the tiles on the way.
template <bool kTranspose>
__device__ __forceinline__ void load_tiles(uint32_t (&r)[4], uint32_t row_address) {
  if constexpr (kTranspose) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row_address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row_address)
                 : "memory");
  }
}

/// Like load_tiles, for two tiles: lanes 0 … 15 give the addresses.
template <bool kTranspose>
__device__ __forceinline__ void load_two_tiles(uint32_t& r0, uint32_t& r1, uint32_t row_address) {
  if constexpr (kTranspose) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r0), "=r"(r1)
                 : "r"(row_address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r0), "=r"(r1)
                 : "r"(row_address)
                 : "memory");
  }
}

/// Transposes an 8×8 tile of 16-bit values, of which each lane holds a pair of one row, as in D: D
/// of one instruction, rounded, becomes B of the next.
__device__ __forceinline__ uint32_t transpose_tile(uint32_t word) {
  uint32_t turned;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(word));
  return turned;
}

}  // namespace dlblas
