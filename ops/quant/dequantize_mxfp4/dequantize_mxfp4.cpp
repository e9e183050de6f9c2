// dequantize_mxfp4: schema and oracle; its kernels are those of all microscaling values.
// Read next: ops/quant/mx_values_ref.hpp (how exactly), ops/quant/mx_values.hpp.
#include "ops/quant/dequantize_mxfp4/dequantize_mxfp4_ref.hpp"

#include "ops/quant/mx_values.hpp"

namespace dlblas::quant {

OperatorDef dequantize_mxfp4();
OperatorDef dequantize_mxfp4() {
  static constexpr MxValuesOp kValues = {.group = 32, .per_code = 2};
  OperatorDef def = mx_values(
      "dequantize_mxfp4(q: u8[*T, P], scale: f8e8m0[*T, P/16] ~ positive, "
      "out_dtype: dtype(f) = none) -> y: out_dtype|f32[*T, 2P] where T: bucket(tokens)",
      "y = q · scale of its 32 columns", kValues);
  def.letters = {"T", "P"};
  kernels::set_row_oracle<dequantize_mxfp4_row<kernels::HostRow>>(def);
  return def;
}

}  // namespace dlblas::quant
