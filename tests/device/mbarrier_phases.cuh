// Test kernel: half a block hands numbers to the other half through a ring of kSlots buffers, many
// times around, with nothing but mbarriers in between. In: rounds. Out: per thread, how often it
// saw something wrong. Driven by tests/cpp/test_device_toolbox.cpp.
#pragma once

#include "device/mbarrier.cuh"
#include "tests/device/toolbox_params.hpp"

namespace dlblas {

inline constexpr int32_t kHalf = 128;

/// A new barrier is in phase 0: that one is not over, the one before it is.
__device__ inline int32_t check_new(Mbarrier& barrier) {
  return (barrier.try_wait(0) ? 1 : 0) + (barrier.try_wait(1) ? 0 : 1);
}

template <int32_t kSlots>
__global__ void __launch_bounds__(2 * kHalf)
    mbarrier_phases(const __grid_constant__ PhasesParams p) {
  __shared__ Mbarrier full[kSlots], empty[kSlots];
  __shared__ int32_t slots[kSlots][kHalf];
  const int32_t me = static_cast<int32_t>(threadIdx.x) % kHalf;
  int32_t wrong = 0;
  if (threadIdx.x == 0) {
    for (int32_t s = 0; s < kSlots; ++s) {
      full[s].init(kHalf);
      empty[s].init(kHalf);
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  for (int32_t s = 0; s < kSlots; ++s) wrong += check_new(full[s]) + check_new(empty[s]);
  __syncthreads();
  RingPlace<kSlots> at;
  for (int32_t round = 0; round < p.rounds; ++round, at.advance()) {
    if (threadIdx.x < kHalf) {
      empty[at.stage].wait(at.parity ^ 1);
      slots[at.stage][me] = round * kHalf + me;
      full[at.stage].arrive();
    } else {
      full[at.stage].wait(at.parity);
      const int32_t other = (me * 37 + round) % kHalf;  // another warp's number
      if (slots[at.stage][other] != round * kHalf + other) ++wrong;
      empty[at.stage].arrive();
    }
  }
  __syncthreads();
  if (threadIdx.x < kSlots) {
    full[threadIdx.x].invalidate();
    empty[threadIdx.x].invalidate();
  }
  p.wrong[threadIdx.x] = wrong;
}

}  // namespace dlblas
