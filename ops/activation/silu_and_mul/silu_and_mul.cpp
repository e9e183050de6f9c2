// silu_and_mul: schema and oracle; the rest is shared by all gated products.
// Read next: silu_and_mul_program.hpp (what it computes), silu_and_mul_ref.hpp (how exactly).
#include "ops/activation/gated_ops.hpp"
#include "ops/activation/silu_and_mul/silu_and_mul_ref.hpp"

namespace dlblas::activation {

OperatorDef silu_and_mul();
OperatorDef silu_and_mul() {
  OperatorDef def = gated({
      .name = "silu_and_mul",
      .schema = "silu_and_mul(x: f[*T, 2F]) -> y: like(x)[*T, F] where T: bucket(tokens)",
      .formula = "y = silu(x[:F]) · x[F:]",
      .work_per_row = [](const Problem& p) { return 8.0 * static_cast<double>(p.dims[kF]); },
  });
  kernels::set_row_oracle<silu_and_mul_row<kernels::HostRow>>(def);
  return def;
}

}  // namespace dlblas::activation
