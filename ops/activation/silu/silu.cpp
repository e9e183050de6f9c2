// silu: schema and oracle; the rest is shared by all plain activations.
// Read next: silu_program.hpp (what it computes), silu_ref.hpp (how exactly).
#include "ops/activation/gated_ops.hpp"
#include "ops/activation/silu/silu_ref.hpp"

namespace dlblas::activation {

OperatorDef silu();
OperatorDef silu() {
  OperatorDef def = gated({
      .name = "silu",
      .schema = "silu(x: f[*T, F]) -> y: like(x)[*T, F] where T: bucket(tokens)",
      .formula = "y = x / (1 + e^−x)",
      .work_per_row = [](const Problem& p) { return 8.0 * static_cast<double>(p.dims[kF]); },
  });
  def.inplace = {"silu_(x!y)"};
  kernels::set_row_oracle<silu_row<kernels::HostRow>>(def);
  return def;
}

}  // namespace dlblas::activation
