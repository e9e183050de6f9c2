// Sums over the threads of a row: part of a warp, a warp, or several warps with their own named
// barrier, so that the rows of a block never wait for each other. In: one value per thread.
// Out: the sum, in every thread; the order of additions depends only on kThreads, so the bits are
// the same in any batch. Read next: device/cluster.cuh.
#pragma once

#include "device/types.hpp"

namespace dlblas {

inline constexpr int kWarp = 32;

/// Two sums at once, with one barrier for both.
struct SumPair {
  float first, second;
  __device__ explicit SumPair(float a, float b = 0) : first(a), second(b) {}
  __device__ SumPair& operator+=(SumPair other) {
    first += other.first, second += other.second;
    return *this;
  }
};

namespace detail {
// value += the value of the lane whose number differs in the bit `distance`. One statement to the
// compiler: as shuffles and sums, five of them took a twentieth of a norm kernel's compile time.
__device__ inline void add_other_lane(float& value, int distance) {
  asm volatile(
      "{\n .reg .f32 other;\n shfl.sync.bfly.b32 other, %0, %1, 31, -1;\n"
      " add.rn.f32 %0, %0, other;\n}"
      : "+f"(value)
      : "r"(distance));
}
__device__ inline void add_other_lane(double& value, int distance) {
  asm volatile(
      "{\n .reg .b32 low, high;\n .reg .f64 other;\n mov.b64 {low, high}, %0;\n"
      " shfl.sync.bfly.b32 low, low, %1, 31, -1;\n shfl.sync.bfly.b32 high, high, %1, 31, -1;\n"
      " mov.b64 other, {low, high};\n add.rn.f64 %0, %0, other;\n}"
      : "+d"(value)
      : "r"(distance));
}
__device__ inline void add_other_lane(SumPair& value, int distance) {
  add_other_lane(value.first, distance), add_other_lane(value.second, distance);
}
}  // namespace detail

/// Butterfly over aligned groups of kLanes lanes; all lanes of the warp must take part.
template <int kLanes = kWarp, typename V>
__device__ inline V warp_sum(V value) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    detail::add_other_lane(value, distance);
  return value;
}

/// The same sum in a loop, for rare paths: a fifth of the code, but takes five times as long.
template <typename V>
__device__ inline V warp_sum_in_loop(V value) {
#pragma unroll 1
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    detail::add_other_lane(value, distance);
  return value;
}

/// Waits until `threads` threads (whole warps) have arrived at barrier `id`, 0 to 15; __syncthreads
/// uses 0.
__device__ inline void barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// Sums over rows of kThreads threads each: 1 to 32, or a multiple of 32 up to 1024. A row of
/// several warps needs kSlots doubles of shared memory and one named barrier. Consecutive sums
/// alternate between two sets of slots, so one barrier per sum is enough: a thread that rewrites a
/// set has passed the barrier that came after all reads of it.
template <int kThreads>
class RowSum {
 public:
  static constexpr int kWarps = kThreads > kWarp ? kThreads / kWarp : 1;
  static constexpr int kSlots = kWarps > 1 ? 2 * kWarps : 0;
  static_assert(kThreads <= kWarp ? kWarp % kThreads == 0 : kThreads % kWarp == 0);

  /// `slots`: this row's kSlots. `barrier`: 1 + the row's index in the block, so at most 15 rows of
  /// several warps. `thread`: index in the row.
  __device__ RowSum(double* slots, int barrier, int thread)
      : slots_(slots), barrier_(barrier), thread_(thread) {}

  /// V is float, double or SumPair.
  template <typename V>
  __device__ V sum(V value) {
    value = warp_sum<(kThreads < kWarp ? kThreads : kWarp)>(value);
    if constexpr (kWarps > 1) {
      V* slots = reinterpret_cast<V*>(slots_ + odd_ * kWarps);
      odd_ ^= 1;
      if (thread_ % kWarp == 0) slots[thread_ / kWarp] = value;
      barrier_sync(barrier_, kThreads);
      // Every warp adds the same values in the same tree: no second barrier to broadcast the sum.
      constexpr int kLanes = kWarps <= 2    ? 2
                             : kWarps <= 4  ? 4
                             : kWarps <= 8  ? 8
                             : kWarps <= 16 ? 16
                                            : 32;
      const int lane = thread_ % kLanes;
      value = warp_sum<kLanes>(lane < kWarps ? slots[lane] : V(0));
    }
    return value;
  }

  /// A barrier of the row's threads: what they wrote before it is visible to all of them after it.
  __device__ void meet() const {
    if constexpr (kWarps > 1)
      barrier_sync(barrier_, kThreads);
    else
      __syncwarp(0xffffffffu >> (kWarp - kThreads) << (threadIdx.x % kWarp / kThreads * kThreads));
  }

 private:
  double* slots_;
  int barrier_, thread_, odd_ = 0;
};

}  // namespace dlblas
