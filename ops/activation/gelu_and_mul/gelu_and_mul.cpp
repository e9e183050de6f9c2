// gelu_and_mul: schema and oracle; the rest is shared by all gated products.
// Read next: gelu_and_mul_program.hpp (what it computes), gelu_and_mul_ref.hpp (how exactly).
#include "ops/activation/gated_ops.hpp"
#include "ops/activation/gelu_and_mul/gelu_and_mul_ref.hpp"

namespace dlblas::activation {

OperatorDef gelu_and_mul();
OperatorDef gelu_and_mul() {
  OperatorDef def = gated({
      .name = "gelu_and_mul",
      .schema = "gelu_and_mul(x: f[*T, 2F]) -> y: like(x)[*T, F] where T: bucket(tokens)",
      .formula = "y = gelu(x[:F]) · x[F:]",
      .work_per_row = [](const Problem& p) { return 16.0 * static_cast<double>(p.dims[kF]); },
  });
  kernels::set_row_oracle<gelu_and_mul_row<kernels::HostRow>>(def);
  return def;
}

}  // namespace dlblas::activation
