// A barrier over all blocks of a cooperative launch, executed by one warp of each block, so that
// the other warps go on. Its counter belongs to the driver and is ready at every launch, so nothing
// has to be cleared first: a kernel for that takes 2 to 4 µs.
// In: a kernel launched with cuda::Launch::cooperative. Out: writes of the calling warps before the
// barrier are visible to all of them after it. Read next: ops/norm/cuda/norm_ring.cuh.
#pragma once

#include "device/types.hpp"

namespace dlblas {

/// The counter of cooperative launches: its address is in two special registers, where CUDA's own
/// cooperative groups read it (cooperative_groups/details/driver_abi.h, CUDA 11 to 13); the first
/// word is the size, the second the barrier.
__device__ inline uint32_t* grid_barrier_word() {
  uint32_t high, low;
  asm("mov.u32 %0, %%envreg1;" : "=r"(high));
  asm("mov.u32 %0, %%envreg2;" : "=r"(low));
  return reinterpret_cast<uint32_t*>(static_cast<uint64_t>(high) << 32 | low) + 1;
}

/// Called by one warp of every block. The additions of all blocks total 2³¹, so the top bit flips
/// when the last block arrives, and the word is ready for the next barrier. All lanes spin: after a
/// one-lane loop the compiler doubts that the warp reconverges, and emits divergent shuffles.
__device__ inline void grid_sync(int lane) {
  uint32_t* word = grid_barrier_word();
  const uint32_t mine = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1;
  uint32_t before = 0;
  __syncwarp();
  if (lane == 0)
    asm volatile("atom.add.release.gpu.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(word), "r"(mine)
                 : "memory");
  before = __shfl_sync(0xffffffffu, before, 0);
  asm volatile(
      "{\n\t"
      ".reg .pred p;\n\t"
      ".reg .s32 now;\n\t"
      "again:\n\t"
      "ld.acquire.gpu.s32 now, [%0];\n\t"
      "xor.b32 now, now, %1;\n\t"
      "setp.ge.s32 p, now, 0;\n\t"
      "@p bra again;\n\t"
      "}" ::"l"(word),
      "r"(before)
      : "memory");
  __syncwarp();
}

}  // namespace dlblas
