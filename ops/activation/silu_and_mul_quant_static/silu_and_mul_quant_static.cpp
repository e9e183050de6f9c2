// silu_and_mul_quant_static: schema and oracle; the rest is shared by all 8-bit gated products.
// Read next: silu_and_mul_quant_static_program.hpp (what it computes),
// silu_and_mul_quant_static_ref.hpp.
#include "ops/activation/gated_codes_ops.hpp"
#include "ops/activation/silu_and_mul_quant_static/silu_and_mul_quant_static_ref.hpp"
#include "ops/check_scale.hpp"

namespace dlblas::activation {

OperatorDef silu_and_mul_quant_static();
OperatorDef silu_and_mul_quant_static() {
  OperatorDef def =
      gated_codes("silu_and_mul_quant_static",
                  "silu_and_mul_quant_static(x: f[*T, 2F], scale: f32[] ~ positive, "
                  "dtype: dtype(f8|i8) = none) -> q: dtype|f8e4m3[*T, F] where T: bucket(tokens)",
                  "y = silu(x[:F]) · x[F:]; q = round(y / scale)", CodesOf::kStatic);
  def.check = quant::check_scales<kStaticScale>;
  kernels::set_row_oracle<silu_and_mul_quant_static_row<kernels::HostRow>>(def);
  return def;
}

}  // namespace dlblas::activation
