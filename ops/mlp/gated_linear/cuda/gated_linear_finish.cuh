// gated_linear's epilogue as a separate kernel after two f32 products: each thread takes
// kFinishColumns neighbours of a row. Read next: gated_linear_composed.cpp.
#pragma once

#include "device/pdl.cuh"
#include "ops/mlp/gated_linear/cuda/gated_linear_epilogue.cuh"

namespace dlblas::mlp {

template <GatedLinearTraits S>
__global__ void __launch_bounds__(kFinishThreads)
    gated_finish(const __grid_constant__ GatedFinishParams p) {
  wait_for_dependencies();
  launch_dependents();
  const int64_t chunks = (p.columns + kFinishColumns - 1) / kFinishColumns;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kFinishThreads + threadIdx.x;
  if (at >= p.rows * chunks) return;
  const int64_t m = at / chunks, n = at % chunks * kFinishColumns;
  float sums[2][kFinishColumns] = {};
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    const float* const from = p.sums[part] + m * p.columns + n;
    if (p.columns % 4 == 0 && n + kFinishColumns <= p.columns) {
#pragma unroll
      for (int i = 0; i < kFinishColumns; i += 4) {
        const auto v = *reinterpret_cast<const float4*>(from + i);
        sums[part][i] = v.x, sums[part][i + 1] = v.y;
        sums[part][i + 2] = v.z, sums[part][i + 3] = v.w;
      }
    } else {
#pragma unroll
      for (int i = 0; i < kFinishColumns; ++i)
        if (n + i < p.columns) sums[part][i] = from[i];
    }
  }
  store_values<S.stored(), kFinishColumns>(p.y, GemmAt{m, n, p.columns}, [&](int i) {
    return gate_of<S.gate>(sums[0][i]) * sums[1][i];
  });
}

}  // namespace dlblas::mlp
