// silu_and_mul_quant_token: schema and oracle; the rest is shared by all 8-bit gated products.
// Read next: silu_and_mul_quant_token_program.hpp (what it computes),
// silu_and_mul_quant_token_ref.hpp.
#include "ops/activation/gated_codes_ops.hpp"
#include "ops/activation/silu_and_mul_quant_token/silu_and_mul_quant_token_ref.hpp"

namespace dlblas::activation {

OperatorDef silu_and_mul_quant_token();
OperatorDef silu_and_mul_quant_token() {
  OperatorDef def =
      gated_codes("silu_and_mul_quant_token",
                  "silu_and_mul_quant_token(x: f[*T, 2F], dtype: dtype(f8|i8) = none) -> "
                  "(q: dtype|f8e4m3[*T, F], scale: f32[*T, 1]) where T: bucket(tokens)",
                  "y = silu(x[:F]) · x[F:]; scale = max_F |y| / largest; q = round(y / scale)",
                  CodesOf::kToken);
  kernels::set_row_oracle<silu_and_mul_quant_token_row<kernels::HostRow>>(def);
  return def;
}

}  // namespace dlblas::activation
