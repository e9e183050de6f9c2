// gelu: schema and oracle; the rest is shared by all plain activations.
// Read next: gelu_program.hpp (what it computes), gelu_ref.hpp (how exactly).
#include "ops/activation/gated_ops.hpp"
#include "ops/activation/gelu/gelu_ref.hpp"

namespace dlblas::activation {

OperatorDef gelu();
OperatorDef gelu() {
  OperatorDef def = gated({
      .name = "gelu",
      .schema = "gelu(x: f[*T, F]) -> y: like(x)[*T, F] where T: bucket(tokens)",
      .formula = "y = ½ · x · (1 + erf(x / √2))",
      .work_per_row = [](const Problem& p) { return 20.0 * static_cast<double>(p.dims[kF]); },
  });
  def.inplace = {"gelu_(x!y)"};
  kernels::set_row_oracle<gelu_row<kernels::HostRow>>(def);
  return def;
}

}  // namespace dlblas::activation
