// quantize_mxfp8: schema and oracle; its kernels are those of all scales over groups.
// Read next: ops/quant/mx_ref.hpp (how exactly), ops/common/quant_groups/quant_groups.hpp.
#include "ops/quant/quantize_mxfp8/quantize_mxfp8_ref.hpp"

#include "ops/quant/mx.hpp"

namespace dlblas::quant {

OperatorDef quantize_mxfp8();
OperatorDef quantize_mxfp8() {
  static constexpr QuantGroupsOp kGroups = {.kind = QuantScaleKind::kMx, .group = kMxGroup};
  OperatorDef def = quantize_mx(
      "quantize_mxfp8(x: f[*T, K]) -> (q: f8e4m3[*T, K], scale: f8e8m0[*T, K/32]) "
      "where T: bucket(tokens)",
      "scale = 2^(floor(log2(max |x|)) - 8) of each 32 columns; q = round(x / scale)", kGroups);
  kernels::set_row_oracle<quantize_mxfp8_row<kernels::HostRow>>(def);
  return def;
}

}  // namespace dlblas::quant
