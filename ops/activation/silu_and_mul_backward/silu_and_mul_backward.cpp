// silu_and_mul_backward: schema and oracle; the rest is shared by all gated gradients.
// Read next: silu_and_mul_backward_program.hpp (what it computes), silu_and_mul_backward_ref.hpp.
#include "ops/activation/gated_ops.hpp"
#include "ops/activation/silu_and_mul_backward/silu_and_mul_backward_ref.hpp"

namespace dlblas::activation {

OperatorDef silu_and_mul_backward();
OperatorDef silu_and_mul_backward() {
  OperatorDef def = gated_backward({
      .name = "silu_and_mul_backward",
      .schema = "silu_and_mul_backward(dy: f[*T, F], x: like(dy)[*T, 2F]) -> dx: like(dy)[*T, 2F] "
                "where T: bucket(tokens)",
      .formula =
          "s = 1 / (1 + e^−x[:F]); dx = [dy · x[F:] · s · (1 + x[:F] · (1 − s)), dy · x[:F] · "
          "s]",
      .work_per_row =
          [](const Problem& p) { return 24.0 * static_cast<double>(p.dims[kBackwardF]); },
  });
  kernels::set_row_oracle<silu_and_mul_backward_row<kernels::HostRow>>(def);
  return def;
}

}  // namespace dlblas::activation
