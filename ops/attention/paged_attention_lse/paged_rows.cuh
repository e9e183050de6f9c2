// Attention over a paged cache, any case: a block computes one head of a row of q and some columns
// of o. It walks the keys in chunks: each group of threads computes one score, then all threads
// accumulate the chunk's values, each some columns of some keys. In f32. In: PagedParams. Out: o
// and lse.
// Flow: call > validate > select > compile > [launch].  Read next: paged_keys.cuh.
#pragma once

#include "ops/attention/cuda/cache_chunks.cuh"
#include "ops/attention/paged_attention_lse/paged_keys.cuh"

namespace dlblas::attention {

inline constexpr int kChunk = 128;  // keys

template <PagedTraits S, PagedRowsConfig C>
__global__ void __launch_bounds__(C.threads) paged_rows(const __grid_constant__ PagedParams p) {
  constexpr int kAccess = S.access;
  constexpr int kKeyLanes = chunk_lanes(S.depth, kAccess, kWarp);
  constexpr int kKeyGroups = C.threads / kKeyLanes;
  constexpr int kValueLanes = chunk_lanes(S.width, kAccess, C.threads);
  constexpr int kParts = C.threads / kValueLanes;
  __shared__ float scores[kChunk], powers[kChunk];
  __shared__ float sums[C.threads * kAccess];

  const int thread = static_cast<int>(threadIdx.x);
  const int heads = p.heads * S.group;
  const int32_t t = static_cast<int32_t>(blockIdx.x / static_cast<uint32_t>(heads));
  const int h = static_cast<int>(blockIdx.x - static_cast<uint32_t>(t) * heads);
  const int head = h / S.group;
  const int column = (static_cast<int>(blockIdx.y) * kValueLanes + thread % kValueLanes) * kAccess;
  const int part = thread / kValueLanes;
  const int32_t b = sequence_of<S>(p, t);

  float acc[kAccess] = {};
  ChunkSoftmax softmax;
  if (b >= 0) {
    if (p.sinks) softmax = {p.sinks[h * p.sinks_at] * kLog2E, 1};
    const Sequence<S> sequence(p, b);
    const Sight sight = sequence.sight(p, t);
    const float factor = factor_of<S>(p);
    const int64_t query = t * p.q_at[0] + h * p.q_at[1];
#pragma unroll 1
    for (int32_t first = sight.first; first < sight.end; first += kChunk) {
      const int count = min(kChunk, sight.end - first);
#pragma unroll 1
      for (int j = thread / kKeyLanes; j < kChunk; j += kKeyGroups) {
        float dot = 0;
        if (j < count) {
          const int32_t n = first + j;
          const int64_t key = Sequence<S>::offset(p.k_at, sequence.page(p, n), n, head);
#pragma unroll 1
          for (int d = thread % kKeyLanes * kAccess; d < S.depth; d += kKeyLanes * kAccess) {
            float q[kAccess], k[kAccess];
            load_floats<S.q, kAccess>(q, p.q, query + d * p.q_at[2]);
            load_floats<S.cache, kAccess>(k, p.k, key + d * p.k_at[3]);
#pragma unroll
            for (int i = 0; i < kAccess; ++i) dot = fmaf(q[i], k[i], dot);
          }
        }
        dot = warp_sum<kKeyLanes>(dot);
        if (thread % kKeyLanes == 0) scores[j] = j < count ? logit<S>(p, dot, factor) : nothing();
      }
      __syncthreads();

      const float scale = softmax.add(scores, powers);
#pragma unroll
      for (float& a : acc) a *= scale;
      __syncthreads();

      if (column < S.width) {
        float chunk[kAccess] = {};
#pragma unroll 1
        for (int j = part; j < count; j += kParts) {
          const int32_t n = first + j;
          const int64_t value = Sequence<S>::offset(p.v_at, sequence.page(p, n), n, head);
          float v[kAccess];
          load_floats<S.cache, kAccess>(v, p.v, value + column * p.v_at[3]);
#pragma unroll
          for (int i = 0; i < kAccess; ++i) chunk[i] = fmaf(powers[j], v[i], chunk[i]);
        }
#pragma unroll
        for (int i = 0; i < kAccess; ++i) acc[i] += chunk[i];
      }
    }
  }

#pragma unroll
  for (int i = 0; i < kAccess; ++i) sums[thread * kAccess + i] = acc[i];
  __syncthreads();
  if (part == 0 && column < S.width) {
    const float factor = softmax.sum == 0 ? 0 : (p.v_scale ? *p.v_scale : 1.0f) / softmax.sum;
    const int64_t at = t * p.o_at[0] + h * p.o_at[1] + column * p.o_at[2];
    store_parts<S.q, kParts, kValueLanes, kAccess>(sums, factor, p.o, at, p.o_at[2]);
  }
  if (thread == 0 && blockIdx.y == 0)
    static_cast<float*>(p.lse)[t * p.lse_at[0] + h * p.lse_at[1]] = softmax.lse();
}

}  // namespace dlblas::attention
