// gelu_and_mul_backward: schema and oracle; the rest is shared by all gated gradients.
// Read next: gelu_and_mul_backward_program.hpp (what it computes), gelu_and_mul_backward_ref.hpp.
#include "ops/activation/gated_ops.hpp"
#include "ops/activation/gelu_and_mul_backward/gelu_and_mul_backward_ref.hpp"

namespace dlblas::activation {

OperatorDef gelu_and_mul_backward();
OperatorDef gelu_and_mul_backward() {
  OperatorDef def = gated_backward({
      .name = "gelu_and_mul_backward",
      .schema = "gelu_and_mul_backward(dy: f[*T, F], x: like(dy)[*T, 2F]) -> dx: like(dy)[*T, 2F] "
                "where T: bucket(tokens)",
      .formula = "p = ½ · (1 + erf(x[:F] / √2)); dx = [dy · x[F:] · (p + x[:F] · e^(−x[:F]²/2) / "
                 "√(2π)), dy · x[:F] · p]",
      .work_per_row =
          [](const Problem& p) { return 32.0 * static_cast<double>(p.dims[kBackwardF]); },
  });
  kernels::set_row_oracle<gelu_and_mul_backward_row<kernels::HostRow>>(def);
  return def;
}

}  // namespace dlblas::activation
