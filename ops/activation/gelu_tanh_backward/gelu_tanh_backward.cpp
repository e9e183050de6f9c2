// gelu_tanh_backward: schema and oracle; the rest is shared by all plain gradients.
// Read next: gelu_tanh_backward_program.hpp (what it computes), gelu_tanh_backward_ref.hpp (how
// exactly).
#include "ops/activation/gated_ops.hpp"
#include "ops/activation/gelu_tanh_backward/gelu_tanh_backward_ref.hpp"

namespace dlblas::activation {

OperatorDef gelu_tanh_backward();
OperatorDef gelu_tanh_backward() {
  OperatorDef def = gated_backward({
      .name = "gelu_tanh_backward",
      .schema = "gelu_tanh_backward(dy: f[*T, F], x: like(dy)[*T, F]) -> dx: like(dy)[*T, F] "
                "where T: bucket(tokens)",
      .formula =
          "t = tanh(z), z = √(2/π) · (x + 0.044715 x³); dx = dy · ½ · (1 + t + x · (1 − t²) · z′)",
      .work_per_row = [](const Problem& p) { return 20.0 * static_cast<double>(p.dims[kF]); },
  });
  kernels::set_row_oracle<gelu_tanh_backward_row<kernels::HostRow>>(def);
  return def;
}

}  // namespace dlblas::activation
