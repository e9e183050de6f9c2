// Causal convolutions of channels: (x, weight, bias, state![, cu_seqlens]) -> y. What the
// definitions share. Read next: conv.cpp, conv_cuda.cpp, causal_conv1d_batch/.
#pragma once

#include <string_view>

#include "ops/ssm/conv_config.hpp"
#include "ops/ssm/conv_ref.hpp"
#include "registry/operator.hpp"

namespace dlblas::ssm {

struct ConvOp {
  int offsets = -1;  // cu_seqlens' place; -1: sequences are rows of the batch
  int y = 4;
  // Letters.
  int batch = 0, channels = 1, tokens = 2, taps = 3, sequences = 0;
};
/// The parameters of one call, for kernels.
ConvParams conv_params(const ConvOp& op, const Args& args);

/// Defines everything but schema, formula, letters and oracle. `op` must live as long as the
/// process.
void add_conv(OperatorDef& def, const ConvOp& op);
Implementation conv_cuda(const ConvOp& op);

}  // namespace dlblas::ssm
