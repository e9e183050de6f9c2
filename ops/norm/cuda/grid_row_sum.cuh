// The sum of a row shared by blocks of the whole grid: every block stores its part, the last one to
// arrive adds the parts in block order and publishes the total, and blocks that need the total wait
// for it. The memory is cleared before the launch (zero_fill.cuh). Read next:
// ops/norm/cuda/norm_split.cuh.
#pragma once

#include "ops/norm/cuda/norm_stages.cuh"

namespace dlblas::norm {

/// Adds 1. Release: a thread that reads the new value sees what this thread, and those it
/// synchronised with, wrote before. Acquire: this thread sees what earlier arrivals wrote.
__device__ inline uint32_t arrive(uint32_t* counter) {
  uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(counter)
               : "memory");
  return before;
}

/// The block's first warp stores part `member` of a row; the warp that arrives last publishes the
/// sum.
__device__ inline void publish_part(double part, int64_t row, int member,
                                    const GridRowSum& row_sum) {
  const int lane = threadIdx.x;
  double* parts = row_sum.parts + row * row_sum.members;
  uint32_t before = 0;
  if (lane == 0) {
    parts[member] = part;
    before = arrive(row_sum.arrived + row);
  }
  if (__shfl_sync(0xffffffffu, before, 0) + 1 != row_sum.members) return;
  __threadfence();  // lane 0 saw all arrive; now the warp sees what they wrote
  double total = 0;
#pragma unroll 1  // once per row; four at a time are a tenth of the kernel's code
  for (int i = lane; i < row_sum.members; i += kWarp) total += __ldcg(parts + i);
  total = warp_sum_in_loop(total);  // once per row
  // 0 means "not there yet": a total of zero is published as −1.
  if (lane == 0) {
    total = total == 0 ? -1.0 : total;
    asm volatile("st.release.gpu.global.f64 [%0], %1;" ::"l"(row_sum.totals + row), "d"(total)
                 : "memory");
  }
}

/// Waits for a row's total; all threads of the block get it, through `shared`.
__device__ inline double wait_total(int64_t row, double* shared, const GridRowSum& row_sum) {
  if (threadIdx.x == 0) {
    double total = 0;
    for (;;) {
      asm volatile("ld.acquire.gpu.global.f64 %0, [%1];"
                   : "=d"(total)
                   : "l"(row_sum.totals + row)
                   : "memory");
      if (total != 0) break;
    }
    *shared = total < 0 ? 0 : total;
  }
  __syncthreads();
  return *shared;
}

}  // namespace dlblas::norm
