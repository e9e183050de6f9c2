// quantize_channel: schema; oracle and implementations are those of all scales over tiles.
// Read next: ops/quant/tiles.cpp (what it computes), ops/quant/tiles.cuh, tiles_cpu.cpp (how).
#include "ops/quant/quantize_channel/quantize_channel_ref.hpp"
#include "ops/quant/tiles.hpp"

namespace dlblas::quant {

OperatorDef quantize_channel();
OperatorDef quantize_channel() {
  OperatorDef def;
  def.family = "quant";
  def.schema =
      "quantize_channel(x: f[*T, K], dtype: dtype(f8|i8) = none, "
      "scale_dtype: \"f32\"|\"ue8m0\" = \"f32\" runtime) -> "
      "(q: dtype|f8e4m3[*T, K], scale: f32[K]) where T: bucket(tokens)";
  def.formula = "scale = max_T |x| / largest; q = round(x / scale)";
  kernels::set_shared_row_oracle<quantize_channel_shared<kernels::HostRow>,
                                 quantize_channel_row<kernels::HostRow>,
                                 tiles::shared_size<QuantTile::kChannel>>(def);
  tiles::define(def, QuantTile::kChannel);
  return def;
}

}  // namespace dlblas::quant
