// gelu_tanh_and_mul_backward: schema and oracle; the rest is shared by all gated gradients.
// Read next: gelu_tanh_and_mul_backward_program.hpp (what it computes),
// gelu_tanh_and_mul_backward_ref.hpp.
#include "ops/activation/gated_ops.hpp"
#include "ops/activation/gelu_tanh_and_mul_backward/gelu_tanh_and_mul_backward_ref.hpp"

namespace dlblas::activation {

OperatorDef gelu_tanh_and_mul_backward();
OperatorDef gelu_tanh_and_mul_backward() {
  OperatorDef def = gated_backward({
      .name = "gelu_tanh_and_mul_backward",
      .schema = "gelu_tanh_and_mul_backward(dy: f[*T, F], x: like(dy)[*T, 2F]) -> dx: like(dy)[*T, "
                "2F] where T: bucket(tokens)",
      .formula =
          "t = tanh(√(2/π) · (x[:F] + 0.044715 · x[:F]³)); dx = [dy · x[F:] · (½ · x[:F] · (1 "
          "+ t))′, dy · ½ · x[:F] · (1 + t)]",
      .work_per_row =
          [](const Problem& p) { return 28.0 * static_cast<double>(p.dims[kBackwardF]); },
      .registers = 34,
  });
  kernels::set_row_oracle<gelu_tanh_and_mul_backward_row<kernels::HostRow>>(def);
  return def;
}

}  // namespace dlblas::activation
