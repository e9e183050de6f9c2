// gelu_tanh: schema and oracle; the rest is shared by all plain activations.
// Read next: gelu_tanh_program.hpp (what it computes), gelu_tanh_ref.hpp (how exactly).
#include "ops/activation/gated_ops.hpp"
#include "ops/activation/gelu_tanh/gelu_tanh_ref.hpp"

namespace dlblas::activation {

OperatorDef gelu_tanh();
OperatorDef gelu_tanh() {
  OperatorDef def = gated({
      .name = "gelu_tanh",
      .schema = "gelu_tanh(x: f[*T, F]) -> y: like(x)[*T, F] where T: bucket(tokens)",
      .formula = "y = ½ · x · (1 + tanh(√(2/π) · (x + 0.044715 x³)))",
      .work_per_row = [](const Problem& p) { return 12.0 * static_cast<double>(p.dims[kF]); },
  });
  def.inplace = {"gelu_tanh_(x!y)"};
  kernels::set_row_oracle<gelu_tanh_row<kernels::HostRow>>(def);
  return def;
}

}  // namespace dlblas::activation
