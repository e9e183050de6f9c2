// The sum of a row that blocks of the whole grid share: every block stores its part, the last one
// adds them in the order of blocks and publishes the total, and blocks that need it wait. Memory is
// cleared before the launch (norm_clear.cuh). Read next:
// ops/norm/cuda/norm_split.cuh, ops/norm/cuda/norm_ring.cuh.
#pragma once

#include "ops/norm/cuda/norm_stages.cuh"

namespace dlblas::norm {

/// Adds 1; what this thread and those it synchronised with wrote before is seen by who reads the
/// new value, and the other way round.
__device__ inline uint32_t count_in(uint32_t* counter) {
  uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(counter)
               : "memory");
  return before;
}

/// The block's first warp hands in part `member` of a row.
__device__ inline void hand_in(double part, int64_t row, int member, const NormMeeting& meeting) {
  const int lane = threadIdx.x;
  double* parts = meeting.parts + row * meeting.members;
  uint32_t before = 0;
  if (lane == 0) {
    parts[member] = part;
    before = count_in(meeting.arrived + row);
  }
  if (__shfl_sync(0xffffffffu, before, 0) + 1 != meeting.members) return;
  __threadfence();  // lane 0 saw all arrive; now the warp sees what they wrote
  double total = 0;
#pragma unroll 1  // once a row; four at a time are a tenth of the kernel's code
  for (int i = lane; i < meeting.members; i += kWarp) total += __ldcg(parts + i);
  total = warp_sum_in_loop(total);  // once a row
  // 0 is "not there": a row of zeros says so by the sign.
  if (lane == 0) {
    total = total == 0 ? -1.0 : total;
    asm volatile("st.release.gpu.global.f64 [%0], %1;" ::"l"(meeting.totals + row), "d"(total)
                 : "memory");
  }
}

/// Waits for a row's total; all threads of the block get it, through `shared`.
__device__ inline double total_of(int64_t row, double* shared, const NormMeeting& meeting) {
  if (threadIdx.x == 0) {
    double total = 0;
    for (;;) {
      asm volatile("ld.acquire.gpu.global.f64 %0, [%1];"
                   : "=d"(total)
                   : "l"(meeting.totals + row)
                   : "memory");
      if (total != 0) break;
    }
    *shared = total < 0 ? 0 : total;
  }
  __syncthreads();
  return *shared;
}

}  // namespace dlblas::norm
