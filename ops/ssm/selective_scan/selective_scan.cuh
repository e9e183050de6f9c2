// A state-space model over whole sequences: a block takes some channels of a group, and the
// sequence chunk by chunk. All threads scan a chunk, each over some consecutive steps: several
// steps act as h → P·h + S, and the composition of such pairs is associative. In: u, delta, z
// [batch, channels, L], A [channels, N], B and C [batch, groups, N, L]. Out: y [batch, channels,
// L], the last state [batch, channels, N] f32. Numerics: f32; the order of a scan depends on the
// configuration alone, and that of the sum over N is fixed. Flow: call > validate > select >
// compile > [launch].  Read next: ops/ssm/step.cuh.
#pragma once

#include "device/reduce.cuh"
#include "ops/ssm/selective_scan/selective_scan_config.hpp"
#include "ops/ssm/step.cuh"

namespace dlblas::ssm {

namespace selective_scan_detail {

/// Loads steps [begin, begin + kItems) of a line; 0 beyond its end.
template <DType T, int kItems, bool kWide>
__device__ inline void load_steps(float (&out)[kItems], const void* base, int64_t offset,
                                  int64_t stride, int64_t begin, int64_t length) {
  if constexpr (kWide) {
    if (begin + kItems <= length) {
#pragma unroll
      for (int i = 0; i < kItems; i += kScanAccess) {
        float part[kScanAccess];
        ssm::load_line<T, kScanAccess, true>(part, base, offset + begin + i, 1);
#pragma unroll
        for (int j = 0; j < kScanAccess; ++j) out[i + j] = part[j];
      }
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < kItems; ++i)
    out[i] = begin + i < length ? ssm::load_one<T>(base, offset + (begin + i) * stride) : 0.0f;
}
template <DType T, int kItems, bool kWide>
__device__ inline void store_steps(const float (&in)[kItems], void* base, int64_t offset,
                                   int64_t stride, int64_t begin, int64_t length) {
  if constexpr (kWide) {
    if (begin + kItems <= length) {
#pragma unroll
      for (int i = 0; i < kItems; i += kScanAccess) {
        float part[kScanAccess];
#pragma unroll
        for (int j = 0; j < kScanAccess; ++j) part[j] = in[i + j];
        ssm::store_line<T, kScanAccess, true>(base, offset + begin + i, 1, part);
      }
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < kItems; ++i)
    if (begin + i < length) ssm::store_one<T>(base, offset + (begin + i) * stride, in[i]);
}

/// h → factor·h + sum.
struct Steps {
  float factor, sum;
  __device__ float after(float h) const { return fmaf(factor, h, sum); }
};
/// The composition of `first`, then `second`.
__device__ inline Steps joined(Steps first, Steps second) {
  return {second.factor * first.factor, second.after(first.sum)};
}
/// Inclusive scan over the lanes of a warp.
__device__ inline Steps warp_scan(Steps own, int lane) {
#pragma unroll
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const Steps before = {__shfl_up_sync(~0u, own.factor, distance),
                          __shfl_up_sync(~0u, own.sum, distance)};
    if (lane >= distance) own = joined(before, own);
  }
  return own;
}

}  // namespace selective_scan_detail

template <SelectiveScanTraits S, SelectiveScanConfig K>
__global__ void __launch_bounds__(K.threads)
    selective_scan(const __grid_constant__ SelectiveScanParams p) {
  using namespace ssm;
  using namespace selective_scan_detail;
  constexpr int kItems = K.items, kChannels = K.channels, kWarps = K.threads / kWarp;
  extern __shared__ __align__(16) float carried[];  // [channels, N]: the state before the chunk
  __shared__ Steps of_warps[2][kChannels][kWarps];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp, warp = thread / kWarp;
  const uint32_t all_groups = blockIdx.x / static_cast<uint32_t>(p.blocks);
  const int first =
      static_cast<int>(blockIdx.x - all_groups * static_cast<uint32_t>(p.blocks)) * kChannels;
  const int64_t batch = all_groups / static_cast<uint32_t>(p.groups);
  const int64_t group = all_groups - batch * p.groups;
  // Channels beyond the group's last one repeat it, and write nothing.
  int64_t channel[kChannels];
#pragma unroll
  for (int k = 0; k < kChannels; ++k)
    channel[k] = group * p.group_channels + min(first + k, p.group_channels - 1);

  for (int i = thread; i < kChannels * p.width; i += K.threads) {
    const int k = i / p.width, n = i - k * p.width;
    carried[i] = 0;
    if constexpr (S.initial != DType::kAbsent) {
      const int64_t d = group * p.group_channels + min(first + k, p.group_channels - 1);
      carried[i] = load_one<S.initial>(
          p.initial, batch * p.initial_at[0] + d * p.initial_at[1] + n * p.initial_at[2]);
    }
  }
  __syncthreads();

#pragma unroll 1
  for (int64_t chunk = 0; chunk < p.length; chunk += K.threads * kItems) {
    const int64_t begin = chunk + thread * kItems;
    float delta[kChannels][kItems], in[kChannels][kItems], y[kChannels][kItems];
#pragma unroll
    for (int k = 0; k < kChannels; ++k) {
      float u[kItems];
      load_steps<S.u, kItems, S.wide>(u, p.u, batch * p.u_at[0] + channel[k] * p.u_at[1], p.u_at[2],
                                      begin, p.length);
      load_steps<S.delta, kItems, S.wide>(delta[k], p.delta,
                                          batch * p.delta_at[0] + channel[k] * p.delta_at[1],
                                          p.delta_at[2], begin, p.length);
      float bias = 0, skip = 0;
      if constexpr (S.bias != DType::kAbsent)
        bias = load_one<S.bias>(p.bias, channel[k] * p.bias_at[0]);
      if constexpr (S.d != DType::kAbsent) skip = load_one<S.d>(p.d, channel[k] * p.d_at[0]);
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        if constexpr (S.bias != DType::kAbsent) delta[k][i] += bias;
        if constexpr (S.softplus) delta[k][i] = softplus(delta[k][i]);
        in[k][i] = delta[k][i] * u[i];
        y[k][i] = S.d != DType::kAbsent ? skip * u[i] : 0.0f;
      }
    }

#pragma unroll 1
    for (int n = 0; n < p.width; ++n) {
      float b[kItems], c[kItems], factor[kChannels][kItems];
      load_steps<S.b, kItems, S.wide>(b, p.b, batch * p.b_at[0] + group * p.b_at[1] + n * p.b_at[2],
                                      p.b_at[3], begin, p.length);
      load_steps<S.c, kItems, S.wide>(c, p.c, batch * p.c_at[0] + group * p.c_at[1] + n * p.c_at[2],
                                      p.c_at[3], begin, p.length);
      Steps before[kChannels];  // what the lanes before this one do
      float h[kChannels];
#pragma unroll
      for (int k = 0; k < kChannels; ++k) {
        const float a = load_one<S.a>(p.a, channel[k] * p.a_at[0] + n * p.a_at[1]);
        Steps own = {1, 0};
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
          // Steps beyond the end change nothing, whatever A is.
          factor[k][i] = begin + i < p.length ? decay(delta[k][i], a) : 1.0f;
          const float added = begin + i < p.length ? in[k][i] * b[i] : 0.0f;
          own = joined(own, {factor[k][i], added});
        }
        own = warp_scan(own, lane);
        if (lane == kWarp - 1) of_warps[n & 1][k][warp] = own;
        before[k] = {__shfl_up_sync(~0u, own.factor, 1), __shfl_up_sync(~0u, own.sum, 1)};
        h[k] = carried[k * p.width + n];
      }
      // One barrier per scan: the next scan writes the other half of of_warps, and this half is
      // written again only after that scan's barrier.
      __syncthreads();
#pragma unroll
      for (int k = 0; k < kChannels; ++k) {
#pragma unroll
        for (int w = 0; w < kWarps - 1; ++w)
          if (w < warp) h[k] = of_warps[n & 1][k][w].after(h[k]);
        if (lane > 0) h[k] = before[k].after(h[k]);
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
          const float added = begin + i < p.length ? in[k][i] * b[i] : 0.0f;
          h[k] = fmaf(factor[k][i], h[k], added);
          y[k][i] = fmaf(c[i], h[k], y[k][i]);
        }
        // Every thread has read it before the barrier.
        if (thread == K.threads - 1) carried[k * p.width + n] = h[k];
      }
    }

#pragma unroll
    for (int k = 0; k < kChannels; ++k) {
      if constexpr (S.z != DType::kAbsent) {
        float z[kItems];
        load_steps<S.z, kItems, S.wide>(z, p.z, batch * p.z_at[0] + channel[k] * p.z_at[1],
                                        p.z_at[2], begin, p.length);
#pragma unroll
        for (int i = 0; i < kItems; ++i) y[k][i] *= DeviceMath::silu(z[i]);
      }
      if (first + k < p.group_channels)
        store_steps<S.u, kItems, S.wide>(y[k], p.y, batch * p.y_at[0] + channel[k] * p.y_at[1],
                                         p.y_at[2], begin, p.length);
    }
    __syncthreads();  // the state is carried, and of_warps was read
  }

  for (int i = thread; i < kChannels * p.width; i += K.threads) {
    const int k = i / p.width, n = i - k * p.width;
    if (first + k >= p.group_channels) break;
    const int64_t d = group * p.group_channels + first + k;
    store_one<DType::kF32>(p.state, batch * p.state_at[0] + d * p.state_at[1] + n * p.state_at[2],
                           carried[i]);
  }
}

}  // namespace dlblas::ssm
