// dequantize_mxfp8: schema and oracle; its kernels are those of all microscaling values.
// Read next: ops/quant/mx_values_ref.hpp (how exactly), ops/quant/mx_values.hpp.
#include "ops/quant/dequantize_mxfp8/dequantize_mxfp8_ref.hpp"

#include "ops/quant/mx_values.hpp"

namespace dlblas::quant {

OperatorDef dequantize_mxfp8();
OperatorDef dequantize_mxfp8() {
  static constexpr MxValuesOp kValues = {.group = 32};
  OperatorDef def = mx_values(
      "dequantize_mxfp8(q: f8e4m3[*T, K], scale: f8e8m0[*T, K/32] ~ positive, "
      "out_dtype: dtype(f) = none) -> y: out_dtype|f32[*T, K] where T: bucket(tokens)",
      "y = q · scale of its 32 columns", kValues);
  def.letters = {"T", "K"};
  kernels::set_row_oracle<dequantize_mxfp8_row<kernels::HostRow>>(def);
  return def;
}

}  // namespace dlblas::quant
