// causal_conv1d_batch: schema and oracle; all causal convolutions share the kernels.
// Read next: ops/ssm/conv_ref.hpp (how exactly), ops/ssm/conv.hpp.
#include "ops/ssm/causal_conv1d_batch/causal_conv1d_batch_ref.hpp"

#include "ops/ssm/conv.hpp"

namespace dlblas::ssm {

OperatorDef causal_conv1d_batch();
OperatorDef causal_conv1d_batch() {
  static constexpr ConvOp kOp = {};
  OperatorDef def;
  def.schema =
      "causal_conv1d_batch(x: f[batch, C, L], weight: like(x)|f32[C, K], "
      "bias: like(x)|f32[C]?, state: like(x)|f32[batch, C, K-1]?!, "
      "activation: \"\"|\"silu\" = \"\") -> y: like(x)[batch, C, L] "
      "where batch: bucket(tokens), L: bucket(tokens)";
  def.formula =
      "y_t = act(bias + Σ_K weight_k · x_{t − K + 1 + k}), before x what state holds; state = the "
      "last K − 1 inputs";
  def.letters = {"batch", "C", "L", "K"};
  add_conv(def, kOp);
  kernels::set_row_oracle<causal_conv1d_batch_row<kernels::HostRow>>(def);
  def.work_per_row = [](const Problem& problem) {
    return 4.0 * static_cast<double>(problem.dims[kConvL]) *
           static_cast<double>(problem.dims[kConvK]);
  };
  return def;
}

}  // namespace dlblas::ssm
