// The last step of products with packed weights: adds, in order, the f32 sums over parts of K that
// blocks left in the workspace. In: ProductParams with `partial`. Out: y.
// Flow: call > validate > select > compile > [launch].  Read next: product_ring.cuh.
#pragma once

#include "device/pdl.cuh"
#include "device/row/values.cuh"
#include "device/vec.cuh"
#include "ops/w4/product_config.hpp"

namespace dlblas::w4 {

template <DType T>
__device__ __forceinline__ void store_y(const W4Params& p, int64_t m, int64_t n, float v) {
  store_vec<T, 1, 2>(p.y.data, m * p.y.row + n * p.y.col, rounded<T>(Values<1>(v)));
}

/// A column's sum times its scale where codes were multiplied as they are, plus its bias. In f32.
template <auto kTraits>
__device__ __forceinline__ float finished(const ProductParams& p, int64_t n, float sum) {
  if constexpr (requires { kTraits.scaled_sums; }) {
    if constexpr (kTraits.scaled_sums)
      sum *= static_cast<const float*>(p.w.scales.data)[n * p.w.scales.row];
    if constexpr (kTraits.bias != DType::kAbsent)
      sum += values(load_vec<kTraits.bias, 1, size_of(kTraits.bias)>(p.bias, n * p.bias_step)).v[0];
  }
  return sum;
}

/// kTraits, kConfig: those of the preceding kernel.
template <auto kTraits, auto kConfig>
__global__ void __launch_bounds__(kProductFinishThreads)
    product_finish(const __grid_constant__ ProductParams p) {
  wait_for_dependencies();
  launch_dependents();
  const int64_t i = int64_t{blockIdx.x} * kProductFinishThreads + threadIdx.x;
  const int64_t count = p.m * p.w.columns;
  if (i >= count) return;
  float parts[kConfig.split], sum = 0;
#pragma unroll
  for (int s = 0; s < kConfig.split; ++s) parts[s] = p.partial[s * count + i];
#pragma unroll
  for (int s = 0; s < kConfig.split; ++s) sum += parts[s];
  const int64_t n = i % p.w.columns;
  store_y<kTraits.type>(p.w, i / p.w.columns, n, finished<kTraits>(p, n, sum));
}

}  // namespace dlblas::w4
