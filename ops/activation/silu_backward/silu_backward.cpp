// silu_backward: schema and oracle; the rest is shared by all plain gradients.
// Read next: silu_backward_program.hpp (what it computes), silu_backward_ref.hpp (how exactly).
#include "ops/activation/gated_ops.hpp"
#include "ops/activation/silu_backward/silu_backward_ref.hpp"

namespace dlblas::activation {

OperatorDef silu_backward();
OperatorDef silu_backward() {
  OperatorDef def = gated_backward({
      .name = "silu_backward",
      .schema = "silu_backward(dy: f[*T, F], x: like(dy)[*T, F]) -> dx: like(dy)[*T, F] "
                "where T: bucket(tokens)",
      .formula = "s = 1 / (1 + e^−x); dx = dy · s · (1 + x · (1 − s))",
      .work_per_row = [](const Problem& p) { return 16.0 * static_cast<double>(p.dims[kF]); },
  });
  kernels::set_row_oracle<silu_backward_row<kernels::HostRow>>(def);
  return def;
}

}  // namespace dlblas::activation
