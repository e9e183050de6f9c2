// dequantize_nvfp4: schema and oracle; its kernels are those of all microscaling values.
// Read next: ops/quant/mx_values_ref.hpp (how exactly), ops/quant/mx_values.hpp.
#include "ops/quant/dequantize_nvfp4/dequantize_nvfp4_ref.hpp"

#include "ops/quant/mx_values.hpp"

namespace dlblas::quant {

OperatorDef dequantize_nvfp4();
OperatorDef dequantize_nvfp4() {
  static constexpr MxValuesOp kValues = {
      .group = 16, .per_code = 2, .global = kValuesGlobal, .y = 3};
  OperatorDef def = mx_values(
      "dequantize_nvfp4(q: u8[*T, P], scale: f8e4m3[*T, P/8] ~ positive, global_scale: f32[] ~ "
      "positive, "
      "out_dtype: dtype(f) = none) -> y: out_dtype|f32[*T, 2P] where T: bucket(tokens)",
      "y = q · scale of its 16 columns · global_scale", kValues);
  def.letters = {"T", "P"};
  kernels::set_row_oracle<dequantize_nvfp4_row<kernels::HostRow>>(def);
  return def;
}

}  // namespace dlblas::quant
