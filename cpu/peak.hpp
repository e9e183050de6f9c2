// This machine's ceilings, as loops: independent multiply-adds that never leave the registers, and
// a copy whose stores bypass the caches. One of each per instruction set (cpu/peak_<level>.cpp).
// In: the level in force. Out: functions that the tuner times. Flow: dlblas_bench_machine.
// Read next: tuner/machine.hpp.
#pragma once

#include <cstdint>

#include "core/device.hpp"

namespace dlblas {

struct PeakKernels {
  /// Runs `iterations` rounds; returns a value that keeps the compiler from dropping them.
  float (*multiply_adds)(std::int64_t iterations) = nullptr;
  std::int64_t flops_per_iteration = 0;
  /// to and from: 64-byte aligned; bytes: a multiple of 64. Stores are ordered before it returns.
  void (*stream_copy)(void* to, const void* from, std::int64_t bytes) = nullptr;
};
PeakKernels peak_kernels(Isa isa);

}  // namespace dlblas
