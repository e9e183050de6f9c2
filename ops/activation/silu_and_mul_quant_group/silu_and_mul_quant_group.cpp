// silu_and_mul_quant_group: schema and oracle; the rest is shared by all 8-bit gated products.
// Read next: silu_and_mul_quant_group_program.hpp (what it computes),
// silu_and_mul_quant_group_ref.hpp.
#include "ops/activation/gated_codes_ops.hpp"
#include "ops/activation/silu_and_mul_quant_group/silu_and_mul_quant_group_ref.hpp"

namespace dlblas::activation {

OperatorDef silu_and_mul_quant_group();
OperatorDef silu_and_mul_quant_group() {
  OperatorDef def = gated_codes(
      "silu_and_mul_quant_group",
      "silu_and_mul_quant_group(x: f[*T, 2F], group: dim = 128, dtype: dtype(f8|i8) = none) -> "
      "(q: dtype|f8e4m3[*T, F], scale: f32[*T, F/group]) where T: bucket(tokens)",
      "y = silu(x[:F]) · x[F:]; scale = max |y| / largest of each group; q = round(y / scale)",
      CodesOf::kGroup);
  kernels::set_row_oracle<silu_and_mul_quant_group_row<kernels::HostRow>>(def);
  return def;
}

}  // namespace dlblas::activation
