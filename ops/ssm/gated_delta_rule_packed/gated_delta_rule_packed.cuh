// gated_delta_rule_packed on NVIDIA GPUs, any strides: a block holds 32 columns of a head's state
// in shared memory, in f32, and walks the sequence token by token; eight threads share a column's
// rows.
// In: DeltaParams. Out: o and the state. Numerics: f32; the state is rounded once, at the end.
// Flow: call > validate > select > compile > [launch].  Read next:
// gated_delta_rule_packed_config.hpp, gated_delta_rule_packed_ref.cpp.
#pragma once

#include "device/reduce.cuh"
#include "device/row/values.cuh"
#include "device/vec.cuh"
#include "ops/ssm/gated_delta_rule_packed/gated_delta_rule_packed_config.hpp"

namespace dlblas::ssm {

namespace delta_detail {

template <DType T, bool kAligned>
__device__ __forceinline__ float load(const void* data, int64_t at) {
  return values(load_vec < T, 1, kAligned ? size_of(T) : 1 > (data, at)).v[0];
}
template <DType T, bool kAligned>
__device__ __forceinline__ void store(void* data, int64_t at, float v) {
  store_vec<T, 1, kAligned ? size_of(T) : 1>(data, at, rounded<T>(Values<1>(v)));
}
template <DType T>
__device__ __forceinline__ int64_t offset(const void* data, int64_t at) {
  constexpr int kWords = T == DType::kI64 ? 2 : 1;
  const uint32_t low = load_vec<DType::kF32, 1, 1>(data, at * kWords).words[0];
  if constexpr (kWords == 1) return static_cast<int32_t>(low);
  const uint32_t high = load_vec<DType::kF32, 1, 1>(data, at * kWords + 1).words[0];
  return static_cast<int64_t>(uint64_t{high} << 32 | low);
}

}  // namespace delta_detail

template <DeltaTraits S>
__global__ void __launch_bounds__(kDeltaThreads)
    gated_delta_rule(const __grid_constant__ DeltaParams p) {
  using namespace delta_detail;
  extern __shared__ __align__(16) float memory[];  // state [K][32], k [K], q [K]
  __shared__ float parts[2][kDeltaParts][kDeltaColumns], factors[2];
  const int column = static_cast<int>(threadIdx.x) % kDeltaColumns;
  const int part = static_cast<int>(threadIdx.x) / kDeltaColumns;  // a warp
  int64_t block = blockIdx.x;
  const int64_t j = block % p.column_blocks * kDeltaColumns + column;
  block /= p.column_blocks;
  const int64_t head = block % p.heads, s = block / p.heads, key_head = head / p.repeats;
  const int rows = static_cast<int>(p.rows);
  const bool there = j < p.columns;
  float *const state = memory, *const k = state + rows * kDeltaColumns, *const q = k + rows;
  const int64_t begin = offset<S.offsets>(p.offsets, s * p.offsets_at);
  const int64_t end = offset<S.offsets>(p.offsets, (s + 1) * p.offsets_at);
  if (end <= begin) return;
  const int64_t state_at = s * p.state_at[0] + head * p.state_at[1] + j * p.state_at[3];
  for (int i = part; i < rows; i += kDeltaParts)
    state[i * kDeltaColumns + column] =
        there ? load<S.state, S.aligned>(p.state, state_at + i * p.state_at[2]) : 0.0f;
  for (int64_t t = begin; t < end; ++t) {
    // Warp 0 reads k, warp 1 q: all warps read the previous ones before the last barrier.
    if (part < 2) {
      const void* from = part == 0 ? p.k : p.q;
      const int64_t* at = part == 0 ? p.k_at : p.q_at;
      float* to = part == 0 ? k : q;
      float squares = 0;
      for (int i = column; i < rows; i += kWarp) {
        const float v = load<S.q, S.aligned>(from, t * at[0] + key_head * at[1] + i * at[2]);
        to[i] = v, squares += v * v;
      }
      if constexpr (S.l2norm) squares = warp_sum(squares);
      if (column == 0) factors[part] = S.l2norm ? 1 / sqrtf(squares + kDeltaEps) : 1.0f;
    }
    const float decay = expf(load<S.g, S.aligned>(p.g, t * p.g_at[0] + head * p.g_at[1]));
    const float beta = load<S.beta, S.aligned>(p.beta, t * p.beta_at[0] + head * p.beta_at[1]);
    const float value =
        there ? load<S.v, S.aligned>(p.v, t * p.v_at[0] + head * p.v_at[1] + j * p.v_at[2]) : 0.0f;
    __syncthreads();
    const float k_factor = factors[0], q_factor = factors[1];
    float dot = 0;
    for (int i = part; i < rows; i += kDeltaParts) {
      const float v = state[i * kDeltaColumns + column] * decay;
      state[i * kDeltaColumns + column] = v;
      dot = fmaf(k[i] * k_factor, v, dot);
    }
    parts[0][part][column] = dot;
    __syncthreads();
    dot = 0;
#pragma unroll
    for (int i = 0; i < kDeltaParts; ++i) dot += parts[0][i][column];
    const float change = beta * (value - dot);
    float out = 0;
    for (int i = part; i < rows; i += kDeltaParts) {
      const float v = fmaf(k[i] * k_factor, change, state[i * kDeltaColumns + column]);
      state[i * kDeltaColumns + column] = v;
      out = fmaf(q[i] * q_factor, v, out);
    }
    parts[1][part][column] = out;
    __syncthreads();
    if (part != 0 || !there) continue;
    out = 0;
#pragma unroll
    for (int i = 0; i < kDeltaParts; ++i) out += parts[1][i][column];
    store<S.q, S.aligned>(p.o, t * p.o_at[0] + head * p.o_at[1] + j * p.o_at[2], out * p.scale);
  }
  for (int i = part; there && i < rows; i += kDeltaParts)
    store<S.state, S.aligned>(p.state, state_at + i * p.state_at[2],
                              state[i * kDeltaColumns + column]);
}

}  // namespace dlblas::ssm
