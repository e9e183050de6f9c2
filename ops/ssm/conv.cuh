// Causal convolutions of channels on NVIDIA GPUs, any strides: each thread computes elements of its
// block's channels and tokens from their taps, which neighbouring threads share in L1. Inputs
// before a sequence come from its state, or are 0. The state takes a sequence's last inputs: in the
// same kernel if a block has all tokens of its channels, and so has read all of the old state, else
// in a second kernel. Numerics: f32, one rounding. Flow: call > validate > select > compile >
// [launch].
// Read next: conv_config.hpp, conv_cuda.cpp.
#pragma once

#include "device/row/values.cuh"
#include "device/vec.cuh"
#include "ops/ssm/conv_config.hpp"

namespace dlblas::ssm {

namespace detail {

template <DType T, bool kAligned>
__device__ __forceinline__ float conv_load(const void* data, int64_t at) {
  return values(load_vec < T, 1, kAligned ? size_of(T) : 1 > (data, at)).v[0];
}
template <DType T, bool kAligned>
__device__ __forceinline__ void conv_store(void* data, int64_t at, float v) {
  store_vec<T, 1, kAligned ? size_of(T) : 1>(data, at, rounded<T>(Values<1>(v)));
}

template <ConvTraits S>
__device__ __forceinline__ int64_t conv_offset(const ConvParams& p, int64_t s) {
  constexpr bool kWide = S.offsets == DType::kI64;
  const int64_t at = s * p.offsets_at * (kWide ? 2 : 1);
  const uint32_t low = load_vec<DType::kF32, 1, 1>(p.offsets, at).words[0];
  if constexpr (!kWide) return static_cast<int32_t>(low);
  return static_cast<int64_t>(
      uint64_t{load_vec<DType::kF32, 1, 1>(p.offsets, at + 1).words[0]} << 32 | low);
}

/// A sequence: tokens [begin, end) of a row of the batch.
struct Sequence {
  int64_t index, begin, end;
};
template <ConvTraits S>
__device__ __forceinline__ Sequence sequence(const ConvParams& p, int64_t s) {
  if constexpr (S.offsets == DType::kAbsent)
    return {s, 0, p.tokens};
  else
    return {s, conv_offset<S>(p, s), conv_offset<S>(p, s + 1)};
}
/// The last sequence that begins at or before a token; an empty one if there are none.
template <ConvTraits S>
__device__ __forceinline__ Sequence sequence_of(const ConvParams& p, int64_t row, int64_t token) {
  if constexpr (S.offsets == DType::kAbsent) return sequence<S>(p, row);
  int64_t low = 0, high = p.sequences;  // the last with offsets[low] <= token
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (conv_offset<S>(p, middle) <= token ? low : high) = middle;
  }
  if (p.sequences == 0) return {0, 0, 0};
  return sequence<S>(p, low);
}

/// The input of a channel at `token` of the row; before its sequence, the state's entry.
template <ConvTraits S>
__device__ __forceinline__ float conv_input(const ConvParams& p, int64_t row, int64_t channel,
                                            const Sequence& of, int64_t token) {
  if (token >= of.begin) {
    const int64_t at = row * p.x_at[0] + channel * p.x_at[1] + token * p.x_at[2];
    return conv_load<S.x, S.aligned>(p.x, at);
  }
  if constexpr (S.state == DType::kAbsent) return 0;
  const int64_t tap = p.taps - 1 + token - of.begin;
  return conv_load < S.state == DType::kAbsent ? DType::kF32 : S.state,
         S.aligned >
             (p.state, of.index * p.state_at[0] + channel * p.state_at[1] + tap * p.state_at[2]);
}

/// Stores the last inputs of a sequence to the state, oldest first: the old entries that are still
/// needed come after those already written.
template <ConvTraits S>
__device__ __forceinline__ void keep_state(const ConvParams& p, int64_t row, int64_t channel,
                                           const Sequence& of) {
  if constexpr (S.state != DType::kAbsent) {
    if (of.end <= of.begin) return;
    for (int64_t tap = 0; tap < p.taps - 1; ++tap) {
      const float v = conv_input<S>(p, row, channel, of, of.end - (p.taps - 1) + tap);
      conv_store<S.state, S.aligned>(
          p.state, of.index * p.state_at[0] + channel * p.state_at[1] + tap * p.state_at[2], v);
    }
  }
}

}  // namespace detail

template <ConvTraits S>
__global__ void __launch_bounds__(kConvThreads)
    causal_conv1d(const __grid_constant__ ConvParams p) {
  using namespace detail;
  constexpr int kChannels = conv_channels(S.channels_inner),
                kTokens = conv_tokens(S.channels_inner);
  int64_t block = blockIdx.x;
  const int64_t first_token = block % p.token_blocks * kTokens;
  block /= p.token_blocks;
  const int64_t first_channel = block % p.channel_blocks * kChannels;
  const int64_t row = block / p.channel_blocks;
  for (int i = static_cast<int>(threadIdx.x); i < kConvItems; i += kConvThreads) {
    const int64_t c = first_channel + (S.channels_inner ? i % kChannels : i / kTokens);
    const int64_t t = first_token + (S.channels_inner ? i / kChannels : i % kTokens);
    if (c >= p.channels || t >= p.tokens) continue;
    const Sequence of = sequence_of<S>(p, row, t);
    if (t < of.begin || t >= of.end) continue;  // of no sequence
    float sum = 0;
    if constexpr (S.bias != DType::kAbsent)
      sum = conv_load<S.bias, S.aligned>(p.bias, c * p.bias_at);
    for (int64_t k = 0; k < p.taps; ++k) {
      const float w =
          conv_load<S.weight, S.aligned>(p.weight, c * p.weight_at[0] + k * p.weight_at[1]);
      sum = fmaf(w, conv_input<S>(p, row, c, of, t - (p.taps - 1) + k), sum);
    }
    if constexpr (S.silu) sum = sum / (1 + expf(-sum));
    conv_store<S.x, S.aligned>(p.y, row * p.y_at[0] + c * p.y_at[1] + t * p.y_at[2], sum);
  }
  if (S.state == DType::kAbsent || p.token_blocks > 1) return;
  __syncthreads();
  const int64_t each = S.offsets == DType::kAbsent ? 1 : p.sequences;
  for (int64_t i = threadIdx.x; i < each * kChannels; i += kConvThreads) {
    const int64_t c = first_channel + i % kChannels;
    if (c < p.channels)
      keep_state<S>(p, row, c, sequence<S>(p, S.offsets == DType::kAbsent ? row : i / kChannels));
  }
}

/// Updates the states of all sequences, where several blocks share a channel's tokens.
template <ConvTraits S>
__global__ void __launch_bounds__(kConvThreads)
    causal_conv1d_state(const __grid_constant__ ConvParams p) {
  const int64_t i = int64_t{blockIdx.x} * kConvThreads + threadIdx.x;
  if (i >= p.sequences * p.channels) return;
  const int64_t s = i / p.channels;
  detail::keep_state<S>(p, S.offsets == DType::kAbsent ? s : 0, i % p.channels,
                        detail::sequence<S>(p, s));
}

}  // namespace dlblas::ssm
