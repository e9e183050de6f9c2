// Joins attention over parts of the keys into one row: each part's result is weighted by 2^(log2 of
// its sum). Each block joins one row. A thread holds four columns; each group of threads that
// covers the row takes a share of the parts, so most loads are independent. Numerics: f32, in an
// order that depends on the number of parts alone; NaN in a part makes the row NaN. Read next:
// paged_attention_lse/paged_decode.cuh, mla_decode_lse/mla_decode.cuh.
#pragma once

#include "device/row/values.cuh"
#include "ops/attention/cuda/join_parts_config.hpp"

namespace dlblas::attention {

struct JoinedRow {
  float o[4], total, most;  // Σ, and what it is the multiple of: 2^most
  /// log2 of the whole sum.
  __device__ float lse() const {
    return total == 0 ? -DeviceMath::infinity() : most + ::log2f(total);
  }
};

/// Part i has its logarithm at lses[i · step] and its columns from values[i · step · kWidth] on.
/// `sink`: a logarithm without columns, or −inf. The result is valid in the first kWidth / 4
/// threads.
template <int kWidth>
__device__ inline JoinedRow join_parts(const float* lses, const float* values, int32_t parts,
                                       int64_t step, float sink) {
  constexpr int kQuads = kWidth / 4, kShares = join_threads(kWidth) / kQuads, kTogether = 4;
  __shared__ float4 sums[kShares][kQuads];
  __shared__ float maxima[kShares], totals[kShares];
  const float nothing = -DeviceMath::infinity();
  const int share = static_cast<int>(threadIdx.x) / kQuads;
  const int quad = static_cast<int>(threadIdx.x) % kQuads;
  JoinedRow row{{0, 0, 0, 0}, 0, nothing};
  const auto add = [&](float weight, const float4& v) {
    row.o[0] = fmaf(weight, v.x, row.o[0]), row.o[1] = fmaf(weight, v.y, row.o[1]);
    row.o[2] = fmaf(weight, v.z, row.o[2]), row.o[3] = fmaf(weight, v.w, row.o[3]);
  };
#pragma unroll 1
  for (int32_t first = share; first < parts; first += kTogether * kShares) {
    float lse[kTogether];
    float4 v[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int64_t part = first + i * kShares;
      const bool there = part < parts;
      lse[i] = there ? lses[part * step] : nothing;
      v[i] = there ? *reinterpret_cast<const float4*>(values + part * step * kWidth + quad * 4)
                   : float4{};
    }
    float most = row.most;  // never NaN: the weight of such a part is
#pragma unroll
    for (const float x : lse) most = fmaxf(most, x);
    const float base = most == nothing ? 0 : most, scale = DeviceMath::exp2(row.most - base);
    row.most = most, row.total *= scale;
#pragma unroll
    for (float& x : row.o) x *= scale;
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const float weight = DeviceMath::exp2(lse[i] - base);
      row.total += weight;
      add(weight, v[i]);
    }
  }
  sums[share][quad] = {row.o[0], row.o[1], row.o[2], row.o[3]};
  if (quad == 0) maxima[share] = row.most, totals[share] = row.total;
  __syncthreads();

  row.most = sink;
#pragma unroll
  for (const float x : maxima) row.most = fmaxf(row.most, x);
  const float base = row.most == nothing ? 0 : row.most;
  row.total = DeviceMath::exp2(sink - base);
#pragma unroll
  for (float& x : row.o) x = 0;
#pragma unroll
  for (int i = 0; i < kShares; ++i) {
    const float weight = DeviceMath::exp2(maxima[i] - base);
    row.total = fmaf(weight, totals[i], row.total);
    add(weight, sums[i][quad]);
  }
  return row;
}

}  // namespace dlblas::attention
