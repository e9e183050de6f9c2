// quantize_block128: schema; oracle and implementations are those of all scales over tiles.
// Read next: ops/quant/tiles.cpp (what it computes), ops/quant/tiles.cuh, tiles_cpu.cpp (how).
#include "ops/quant/quantize_block128/quantize_block128_ref.hpp"
#include "ops/quant/tiles.hpp"

namespace dlblas::quant {

OperatorDef quantize_block128();
OperatorDef quantize_block128() {
  OperatorDef def;
  def.family = "quant";
  def.schema =
      "quantize_block128(x: f[N, K], dtype: dtype(f8|i8) = none, "
      "scale_dtype: \"f32\"|\"ue8m0\" = \"f32\" runtime) -> "
      "(q: dtype|f8e4m3[N, K], scale: f32[N/128, K/128])";
  def.formula = "scale = max |x| / largest of 128 rows by 128 columns; q = round(x / scale)";
  kernels::set_shared_row_oracle<quantize_block128_shared<kernels::HostRow>,
                                 quantize_block128_row<kernels::HostRow>,
                                 tiles::shared_size<QuantTile::kBlock>>(def);
  tiles::define(def, QuantTile::kBlock);
  return def;
}

}  // namespace dlblas::quant
