// quantize_nvfp4: schema and oracle; its kernels are those of all scales over groups.
// Read next: ops/quant/mx_ref.hpp (how exactly), ops/quant_groups.hpp.
#include "ops/quant/quantize_nvfp4/quantize_nvfp4_ref.hpp"

#include "ops/check_scale.hpp"
#include "ops/quant/mx.hpp"

namespace dlblas::quant {

OperatorDef quantize_nvfp4();
OperatorDef quantize_nvfp4() {
  static constexpr QuantGroupsOp kGroups = {
      .kind = QuantScaleKind::kNv, .global = kMxGlobal, .q = 2, .scale = 3, .group = kNvGroup};
  OperatorDef def = quantize_mx(
      "quantize_nvfp4(x: f[*T, K], global_scale: f32[] ~ positive) -> "
      "(q: u8[*T, K//2], scale: f8e4m3[*T, K/16]) where T: bucket(tokens)",
      "scale = e4m3(max |x| / (6 · global_scale)) of each 16 columns; q = round(x / "
      "(scale · global_scale))",
      kGroups);
  def.check = check_scales<kMxGlobal>;
  kernels::set_row_oracle<quantize_nvfp4_row<kernels::HostRow>>(def);
  return def;
}

}  // namespace dlblas::quant
