// quantize_mxfp4: schema and oracle; its kernels are those of all scales over groups.
// Read next: ops/quant/mx_ref.hpp (how exactly), ops/common/quant_groups/quant_groups.hpp.
#include "ops/quant/quantize_mxfp4/quantize_mxfp4_ref.hpp"

#include "ops/quant/mx.hpp"

namespace dlblas::quant {

OperatorDef quantize_mxfp4();
OperatorDef quantize_mxfp4() {
  static constexpr QuantGroupsOp kGroups = {.kind = QuantScaleKind::kMx, .group = kMxGroup};
  OperatorDef def = quantize_mx(
      "quantize_mxfp4(x: f[*T, K]) -> (q: u8[*T, K//2], scale: f8e8m0[*T, K/32]) "
      "where T: bucket(tokens)",
      "scale = 2^(floor(log2(max |x|)) - 2) of each 32 columns; q = round(x / scale)", kGroups);
  kernels::set_row_oracle<quantize_mxfp4_row<kernels::HostRow>>(def);
  return def;
}

}  // namespace dlblas::quant
