// Latent attention over a paged cache, any case: a block computes one head of a token and some
// columns of o. It walks the keys in chunks: each group of threads computes one score, then all
// threads accumulate the chunk's latents, each some columns of some keys. In f32. In: MlaParams,
// keys of q's type or f8. Out: o and lse.
// Flow: call > validate > select > compile > [launch].  Read next:
// ops/attention/paged_attention_lse/paged_rows.cuh (the same over heads of a cache).
#pragma once

#include "ops/attention/cuda/cache_chunks.cuh"
#include "ops/attention/mla_decode_lse/mla_config.hpp"

namespace dlblas::attention {

inline constexpr int kMlaChunk = 64;  // keys

/// Adds to `dot` the products of two rows over this lane's columns.
template <DType A, DType B, int kAccess, int kLanes, int kColumns>
__device__ inline float mla_dot(const void* a, int64_t a_at, int64_t a_step, const void* b,
                                int64_t b_at, int64_t b_step, int lane, float dot) {
#pragma unroll 1
  for (int d = lane * kAccess; d < kColumns; d += kLanes * kAccess) {
    float x[kAccess], y[kAccess];
    load_floats<A>(x, a, a_at + d * a_step);
    load_floats<B>(y, b, b_at + d * b_step);
#pragma unroll
    for (int i = 0; i < kAccess; ++i) dot = fmaf(x[i], y[i], dot);
  }
  return dot;
}

template <MlaTraits S, MlaRowsConfig C>
__global__ void __launch_bounds__(C.threads) mla_rows(const __grid_constant__ MlaParams p) {
  constexpr int kAccess = S.access;
  constexpr int kKeyLanes = chunk_lanes(S.latent, kAccess, kWarp);
  constexpr int kKeyGroups = C.threads / kKeyLanes;
  constexpr int kLanes = chunk_lanes(S.latent, kAccess, C.threads);
  constexpr int kParts = C.threads / kLanes;
  static_assert(kMlaChunk % kKeyGroups == 0 || kKeyGroups % kMlaChunk == 0);
  __shared__ float scores[kMlaChunk], powers[kMlaChunk];
  __shared__ float sums[C.threads * kAccess];

  const float nothing = -DeviceMath::infinity();
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t t = blockIdx.x / static_cast<uint32_t>(p.heads);
  const int64_t h = blockIdx.x - t * p.heads;
  const int column = (static_cast<int>(blockIdx.y) * kLanes + thread % kLanes) * kAccess;
  const int part = thread / kLanes;
  const int32_t* const table = p.table + t * p.table_at[0];
  const auto length =
      static_cast<int32_t>(min(min(int64_t{p.entries} * S.page, int64_t{0x7fffffff}),
                               max(int64_t{0}, int64_t{p.lengths[t * p.lengths_at]})));
  const int64_t query = t * p.q_nope_at[0] + h * p.q_nope_at[1];
  const int64_t rotated = t * p.q_pe_at[0] + h * p.q_pe_at[1];

  const float ckv_scale = S.scaled && p.ckv_scale ? *p.ckv_scale : 1;
  const float kpe_scale = S.scaled && p.kpe_scale ? *p.kpe_scale : 1;

  float acc[kAccess] = {};
  ChunkSoftmax softmax;
#pragma unroll 1
  for (int32_t first = 0; first < length; first += kMlaChunk) {
    const int count = min(kMlaChunk, length - first);
#pragma unroll 1
    for (int i = 0; i < (kMlaChunk + kKeyGroups - 1) / kKeyGroups; ++i) {
      const int j = i * kKeyGroups + thread / kKeyLanes;
      float dot = 0, of_rotary = 0;
      if (j < count) {
        const int32_t n = first + j;
        const int64_t page = table[n / S.page * p.table_at[1]];
        const int64_t ckv = page * p.ckv_at[0] + n % S.page * p.ckv_at[1];
        const int64_t kpe = page * p.kpe_at[0] + n % S.page * p.kpe_at[1];
        dot = mla_dot<S.type, S.cache, kAccess, kKeyLanes, S.latent>(
            p.q_nope, query, p.q_nope_at[2], p.ckv, ckv, p.ckv_at[2], thread % kKeyLanes, dot);
        float& rest = S.scaled ? of_rotary : dot;
        rest = mla_dot<S.type, S.cache, kAccess, kKeyLanes, S.rotary>(
            p.q_pe, rotated, p.q_pe_at[2], p.kpe, kpe, p.kpe_at[2], thread % kKeyLanes, rest);
        if constexpr (S.scaled) dot = fmaf(of_rotary, kpe_scale, dot * ckv_scale);
      }
      dot = warp_sum<kKeyLanes>(dot);
      if (thread % kKeyLanes == 0 && j < kMlaChunk) scores[j] = j < count ? dot * p.scale : nothing;
    }
    __syncthreads();

    const float scale = softmax.add(scores, powers);
#pragma unroll
    for (float& a : acc) a *= scale;
    __syncthreads();

    if (column >= S.latent) continue;
    float chunk[kAccess] = {};
#pragma unroll 1
    for (int j = part; j < count; j += kParts) {
      const int32_t n = first + j;
      const int64_t page = table[n / S.page * p.table_at[1]];
      const int64_t ckv = page * p.ckv_at[0] + n % S.page * p.ckv_at[1];
      float v[kAccess];
      load_floats<S.cache>(v, p.ckv, ckv + column * p.ckv_at[2]);
#pragma unroll
      for (int i = 0; i < kAccess; ++i) chunk[i] = fmaf(powers[j], v[i], chunk[i]);
    }
#pragma unroll
    for (int i = 0; i < kAccess; ++i) acc[i] += chunk[i];
  }

#pragma unroll
  for (int i = 0; i < kAccess; ++i) sums[thread * kAccess + i] = acc[i];
  __syncthreads();
  if (part == 0 && column < S.latent) {
    const float inverse = softmax.sum == 0 ? 0 : ckv_scale / softmax.sum;
    const int64_t at = t * p.o_at[0] + h * p.o_at[1] + column * p.o_at[2];
    store_parts<S.type, kParts, kLanes, kAccess>(sums, inverse, p.o, at, p.o_at[2]);
  }
  if (thread == 0 && blockIdx.y == 0)
    static_cast<float*>(p.lse)[t * p.lse_at[0] + h * p.lse_at[1]] = softmax.lse();
}

}  // namespace dlblas::attention
