// causal_conv1d_varlen: schema and oracle; all causal convolutions share the kernels.
// Read next: ops/ssm/conv_ref.hpp (how exactly), ops/ssm/conv.hpp.
#include "ops/ssm/causal_conv1d_varlen/causal_conv1d_varlen_ref.hpp"

#include "ops/ssm/conv.hpp"

namespace dlblas::ssm {

OperatorDef causal_conv1d_varlen();
OperatorDef causal_conv1d_varlen() {
  static constexpr ConvOp kOp = {.offsets = conv::kOffsets,
                                 .y = 5,
                                 .batch = -1,
                                 .channels = kVarlenC,
                                 .tokens = kVarlenT,
                                 .taps = kVarlenK,
                                 .sequences = kVarlenS};
  OperatorDef def;
  def.schema =
      "causal_conv1d_varlen(x: f[C, T], weight: like(x)|f32[C, K], bias: like(x)|f32[C]?, "
      "state: like(x)|f32[S, C, K-1]?!, cu_seqlens: index[S+1] ~ offsets<=T, "
      "activation: \"\"|\"silu\" = \"\") -> y: like(x)[C, T] where T: bucket(tokens)";
  def.formula =
      "causal_conv1d_batch of sequences side by side: tokens cu_seqlens[s] … cu_seqlens[s + 1]";
  def.letters = {"C", "T", "K", "S"};
  add_conv(def, kOp);
  kernels::set_row_oracle<causal_conv1d_varlen_row<kernels::HostRow>>(def);
  def.work_per_row = [](const Problem& problem) {
    return 4.0 * static_cast<double>(problem.dims[kVarlenT]) *
           (static_cast<double>(problem.dims[kVarlenK]) +
            static_cast<double>(problem.dims[kVarlenS]));
  };
  return def;
}

}  // namespace dlblas::ssm
