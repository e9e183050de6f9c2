// quantize_tensor: schema; oracle and implementations are those of all scales over tiles.
// Read next: ops/quant/tiles.cpp (what it computes), ops/quant/tiles.cuh, tiles_cpu.cpp (how).
#include "ops/quant/quantize_tensor/quantize_tensor_ref.hpp"
#include "ops/quant/tiles.hpp"

namespace dlblas::quant {

OperatorDef quantize_tensor();
OperatorDef quantize_tensor() {
  OperatorDef def;
  def.family = "quant";
  def.schema =
      "quantize_tensor(x: f[*T, K], dtype: dtype(f8|i8) = none, "
      "scale_dtype: \"f32\"|\"ue8m0\" = \"f32\" runtime) -> "
      "(q: dtype|f8e4m3[*T, K], scale: f32[]) where T: bucket(tokens)";
  def.formula = "scale = max |x| / largest; q = round(x / scale)";
  kernels::set_shared_row_oracle<quantize_tensor_shared<kernels::HostRow>,
                                 quantize_tensor_row<kernels::HostRow>,
                                 tiles::shared_size<QuantTile::kTensor>>(def);
  tiles::define(def, QuantTile::kTensor);
  return def;
}

}  // namespace dlblas::quant
