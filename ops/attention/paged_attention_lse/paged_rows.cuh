// Attention over a paged cache, any case: a block has a head of a row of q and some columns of o.
// It walks its keys in chunks: groups of threads make a score each, then all threads take the
// chunk's values, each some columns of some keys. In f32. In: PagedParams. Out: o and lse.
// Flow: call > validate > select > compile > [launch].  Read next: paged_keys.cuh.
#pragma once

#include "device/reduce.cuh"
#include "ops/attention/paged_attention_lse/paged_keys.cuh"

namespace dlblas::attention {

inline constexpr int kChunk = 128;  // keys

constexpr int power_from(int n, int most) {
  int lanes = 1;
  while (lanes < most && lanes < n) lanes *= 2;
  return lanes;
}
/// Threads that share a row of v, and columns of a block.
constexpr int paged_value_lanes(const PagedTraits& s, int threads) {
  return power_from((s.width + s.access - 1) / s.access, threads);
}

template <PagedTraits S, PagedRowsConfig C>
__global__ void __launch_bounds__(C.threads) paged_rows(const __grid_constant__ PagedParams p) {
  constexpr int kAccess = S.access;
  constexpr int kKeyLanes = power_from((S.depth + kAccess - 1) / kAccess, kWarp);
  constexpr int kKeyGroups = C.threads / kKeyLanes;
  constexpr int kValueLanes = paged_value_lanes(S, C.threads);
  constexpr int kParts = C.threads / kValueLanes;
  __shared__ float scores[kChunk], powers[kChunk];
  __shared__ float sums[C.threads * kAccess];

  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp;
  const int heads = p.heads * S.group;
  const int32_t t = static_cast<int32_t>(blockIdx.x / static_cast<uint32_t>(heads));
  const int h = static_cast<int>(blockIdx.x - static_cast<uint32_t>(t) * heads);
  const int head = h / S.group;
  const int column = (static_cast<int>(blockIdx.y) * kValueLanes + thread % kValueLanes) * kAccess;
  const int part = thread / kValueLanes;
  const int32_t b = sequence_of<S>(p, t);

  float acc[kAccess] = {}, most = nothing(), sum = 0;
  if (b >= 0) {
    if (p.sinks) most = p.sinks[h * p.sinks_at] * kLog2E, sum = 1;
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

      // Every warp makes the same of all scores.
      float s[kChunk / kWarp], largest = most, total = 0;
#pragma unroll
      for (int i = 0; i < kChunk / kWarp; ++i) {
        s[i] = scores[i * kWarp + lane];
        largest = fmaxf(largest, s[i]);
      }
#pragma unroll
      for (int d = kWarp / 2; d > 0; d /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, d));
      const float base = largest == nothing() ? 0 : largest;
#pragma unroll
      for (int i = 0; i < kChunk / kWarp; ++i) {
        s[i] = DeviceMath::exp2(s[i] - base);
        if (thread < kWarp) powers[i * kWarp + lane] = s[i];
        total += s[i];
      }
      const float scale = DeviceMath::exp2(most - base);  // of nothing 0
      sum = fmaf(sum, scale, warp_sum<kWarp>(total));
      most = largest;
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
    const float factor = sum == 0 ? 0 : (p.v_scale ? *p.v_scale : 1.0f) / sum;
    float o[kAccess];
#pragma unroll
    for (int i = 0; i < kAccess; ++i) {
      o[i] = 0;
#pragma unroll 4
      for (int j = 0; j < kParts; ++j) o[i] += sums[(j * kValueLanes + thread) * kAccess + i];
      o[i] *= factor;
    }
    const int64_t at = t * p.o_at[0] + h * p.o_at[1] + column * p.o_at[2];
#pragma unroll
    for (int i = 0; i < kAccess; ++i) {
      Vec<S.q, 1> one;
      one.set_pair(0, o[i], 0);
      store_vec<S.q, 1, size_of(S.q)>(p.o, at + i * p.o_at[2], one);
    }
  }
  if (thread == 0 && blockIdx.y == 0) {
    const float lse = sum == 0 ? nothing() : (most + ::log2f(sum)) * 0.69314718f;
    static_cast<float*>(p.lse)[t * p.lse_at[0] + h * p.lse_at[1]] = lse;
  }
}

}  // namespace dlblas::attention
