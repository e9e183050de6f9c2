// lora_shrink and lora_expand on NVIDIA GPUs, any layout: blockIdx.x is the token, blockIdx.y a
// part of its elements; some lanes of a warp share an element and add its products in a fixed
// order. Numerics: f32, one rounding, at the store. Flow: call > validate > select > compile >
// [launch]. Read next: lora_config.hpp.
#pragma once

#include "device/vec.cuh"
#include "ops/gemm/lora/lora_config.hpp"

namespace dlblas::gemm {

template <LoraTraits S>
__device__ __forceinline__ int64_t lora_adapter(const LoraParams& p, int64_t token) {
  constexpr int kAlign = S.aligned_adapter ? 4 : 1;
  const int64_t at = token * p.adapter_stride;
  if constexpr (S.adapter == DType::kI64) {
    const uint32_t low = load_vec<DType::kI32, 1, kAlign>(p.adapter, 2 * at).words[0];
    const uint32_t high = load_vec<DType::kI32, 1, kAlign>(p.adapter, 2 * at + 1).words[0];
    return static_cast<int64_t>(uint64_t{high} << 32 | low);
  } else {
    return static_cast<int32_t>(load_vec<DType::kI32, 1, kAlign>(p.adapter, at).words[0]);
  }
}

template <LoraTraits S>
__global__ void __launch_bounds__(kLoraThreads) lora(const __grid_constant__ LoraParams p) {
  constexpr int kN = S.access;
  constexpr int kAlignX = S.aligned ? (kN > 1 ? 16 : size_of(S.x)) : 1;
  constexpr int kAlignW = S.aligned ? (kN > 1 ? 16 : size_of(S.weight)) : 1;
  constexpr int kAlignY = S.aligned ? size_of(S.y) : 1;
  constexpr int kOutputs = kLoraThreads / S.lanes;  // of a block at a time
  const int64_t token = blockIdx.x;
  const int64_t adapter = lora_adapter<S>(p, token);
  if (adapter < 0 || adapter >= p.adapters) return;
  const int lane = static_cast<int>(threadIdx.x) % S.lanes;
  const int mine = static_cast<int>(threadIdx.x) / S.lanes;
  for (int64_t first = int64_t{blockIdx.y} * kOutputs; first < p.width;
       first += int64_t{gridDim.y} * kOutputs) {
    const int64_t n = first + mine;
    const int64_t row = adapter * p.weight_adapter + (n < p.width ? n : 0) * p.weight_row;
    float sum = 0;
    for (int64_t k = lane * kN; k < p.depth; k += S.lanes * kN) {
      float x[kN], w[kN];
      load_vec<S.x, kN, kAlignX>(p.x, token * p.x_row + k * p.x_col).unpack(x);
      load_vec<S.weight, kN, kAlignW>(p.weight, row + k * p.weight_col).unpack(w);
#pragma unroll
      for (int i = 0; i < kN; ++i) sum = fmaf(x[i], w[i], sum);
    }
#pragma unroll
    for (int step = S.lanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (lane != 0 || n >= p.width) continue;
    const int64_t at = token * p.y_row + n * p.y_col;
    float y[1];
    load_vec<S.y, 1, kAlignY>(p.y, at).unpack(y);
    Vec<S.y, 1> to;
    to.pack({fmaf(p.scale, sum, y[0])});
    store_vec<S.y, 1, kAlignY>(p.y, at, to);
  }
}

}  // namespace dlblas::gemm
