// The loops of cpu/peak.hpp for one instruction set, named by DLBLAS_ISA; included only by the
// cpu/peak_<level>.cpp files. Read next: cpu/simd.hpp.
#pragma once

#include "cpu/simd.hpp"

namespace dlblas::DLBLAS_ISA {

// 12 chains: two units with a latency of 4 need 8, and a few more hide the loop overhead.
constexpr int kChains = 12;

float peak_multiply_adds(int64_t iterations);
int64_t peak_flops_per_iteration();
void peak_stream_copy(void* to, const void* from, int64_t bytes);

float peak_multiply_adds(int64_t iterations) {
  Vec sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = broadcast(static_cast<float>(i));
  const Vec a = broadcast(0.999f), b = broadcast(0.001f);
  for (int64_t n = 0; n < iterations; ++n) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = fma(sums[i], a, b);
  }
  Vec total = zero();
  for (int i = 0; i < kChains; ++i) total = add(total, sums[i]);
  return reduce_add(total);
}

int64_t peak_flops_per_iteration() { return int64_t{2} * kChains * kWidth; }

void peak_stream_copy(void* to, const void* from, int64_t bytes) {
  constexpr DType kE = DType::kF32;
  for (int64_t i = 0; i < bytes / 4; i += kWidth)
    stream<kE>(at<kE>(to, i), load<kE>(at<kE>(from, i)));
  stream_fence();
}

}  // namespace dlblas::DLBLAS_ISA
