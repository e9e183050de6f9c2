// gelu_backward: schema and oracle; the rest is shared by all plain gradients.
// Read next: gelu_backward_program.hpp (what it computes), gelu_backward_ref.hpp (how exactly).
#include "ops/activation/gated_ops.hpp"
#include "ops/activation/gelu_backward/gelu_backward_ref.hpp"

namespace dlblas::activation {

OperatorDef gelu_backward();
OperatorDef gelu_backward() {
  OperatorDef def = gated_backward({
      .name = "gelu_backward",
      .schema = "gelu_backward(dy: f[*T, F], x: like(dy)[*T, F]) -> dx: like(dy)[*T, F] "
                "where T: bucket(tokens)",
      .formula = "p = ½ · (1 + erf(x / √2)); dx = dy · (p + x · e^(−x²/2) / √(2π))",
      .work_per_row = [](const Problem& p) { return 26.0 * static_cast<double>(p.dims[kF]); },
  });
  kernels::set_row_oracle<gelu_backward_row<kernels::HostRow>>(def);
  return def;
}

}  // namespace dlblas::activation
