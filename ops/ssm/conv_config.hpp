// Interface of the host and the CUDA kernels of causal convolutions: plain values. Read next:
// conv.cuh, conv.hpp.
#pragma once

#include "device/types.hpp"

namespace dlblas::ssm {

struct ConvTraits {
  DType x, weight, bias, state;  // kAbsent: none
  DType offsets;                 // of cu_seqlens; kAbsent: every sequence is a row of the batch
  bool silu;
  bool channels_inner;  // channels of a token lie side by side, not tokens of a channel
  bool aligned;         // every element is aligned to its size
};

/// A block's tile, channels × tokens. Threads run along the contiguous dimension first.
inline constexpr int kConvThreads = 256, kConvItems = 2048;
constexpr int conv_channels(bool inner) { return inner ? 32 : 4; }
constexpr int conv_tokens(bool inner) { return kConvItems / conv_channels(inner); }

/// Strides in elements. A sequence is a row of the batch, or tokens offsets[s] … offsets[s + 1] of
/// the only row.
struct ConvParams {
  const void *x, *weight, *bias, *offsets;
  void *state, *y;
  int64_t x_at[3], y_at[3];  // batch, channel, token
  int64_t weight_at[2], bias_at, offsets_at;
  int64_t state_at[3];  // sequence, channel, tap
  int64_t batch, channels, tokens, sequences, taps;
  int64_t token_blocks, channel_blocks;
};

}  // namespace dlblas::ssm
