// What the CUDA kernels of attention's gradient share: delta, which is subtracted from dP, and the
// step from a score and dP to P and dS. Read next: attention_gradient_mma.cuh,
// attention_gradient_rows.cuh.
#pragma once

#include "device/reduce.cuh"
#include "ops/attention/cuda/attention_tile.cuh"
#include "ops/attention/gradient/attention_gradient_config.hpp"

namespace dlblas::attention {

/// What a kernel needs to know about a query.
struct QueryFacts {
  float lse, delta;  // lse in base 2
  int64_t bias;      // its row
};

__device__ __forceinline__ float load_row_value(const float* data, int64_t at) {
  return by_bytes(data) ? load_one<DType::kF32, Reach::kByte>(data, at) : data[at];
}

template <AttentionTraits S>
__device__ __forceinline__ QueryFacts query_facts(const AttentionGradientParams& g, const Tile& t,
                                                  int32_t head, int32_t position) {
  const AttentionParams& p = g.p;
  const int32_t batch = S.packed_sequences ? 0 : t.batch;
  const int64_t row = t.q_from + position;
  const float lse =
      load_row_value(p.lse, batch * p.lse_at[0] + head * p.lse_at[1] + row * p.lse_at[2]);
  QueryFacts q;
  q.lse = lse == minus_infinity() ? -minus_infinity() : lse * kLog2E;  // it sees nothing: P is 0
  q.delta = g.delta[(static_cast<int64_t>(batch) * p.heads * p.group + head) * p.q_rows + row];
  q.bias = 0;
  if constexpr (S.bias != DType::kAbsent)
    q.bias = t.batch * p.bias_at[0] + head * p.bias_at[1] + position * p.bias_at[2];
  return q;
}

/// Turns a score into P, and dp into dS.
template <AttentionTraits S>
__device__ __forceinline__ void pair_gradient(const AttentionParams& p, float factor,
                                              const QueryFacts& q, int32_t key, bool seen, float& s,
                                              float& dp) {
  float slope;
  const float logit = score<S>(p, s, q.bias, seen ? key : 0, slope);
  const float weight = DeviceMath::exp2(fmaf(logit, factor, -q.lse));
  s = seen ? weight : 0.0f;
  dp = seen ? weight * (dp - q.delta) * slope : 0.0f;
}

/// delta = Σ dout·o − dlse for each head of a query, one warp each.
template <AttentionTraits S, int kWarps>
__global__ void __launch_bounds__(kWarps * 32)
    attention_delta(const __grid_constant__ AttentionGradientParams g) {
  const AttentionParams& p = g.p;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t heads = static_cast<int64_t>(p.heads) * p.group;
  const int64_t all = heads * p.q_rows * (S.packed_sequences ? 1 : p.batches);
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (i >= all) return;
  const int64_t row = i % p.q_rows, head = i / p.q_rows % heads, batch = i / p.q_rows / heads;
  const int64_t o = batch * p.o_at[0] + row * p.o_at[1] + head * p.o_at[2];
  const int64_t d = batch * g.dout_at[0] + row * g.dout_at[1] + head * g.dout_at[2];
  float sum = 0;
  for (int c = lane; c < p.dv; c += 32)
    sum = fmaf(load_one<S.type, S.in>(p.o, o + c * p.o_at[3]),
               load_one<S.type, S.in>(g.dout, d + c * g.dout_at[3]), sum);
#pragma unroll
  for (int k = 16; k > 0; k /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, k);
  if (lane != 0) return;
  if (g.dlse != nullptr)
    sum -= load_row_value(g.dlse, batch * g.dlse_at[0] + head * g.dlse_at[1] + row * g.dlse_at[2]);
  g.delta[i] = sum;
}

}  // namespace dlblas::attention
