// quantize_token: schema, oracle and program. Everything else is derived from these.
// Read next: quantize_token_program.hpp (what it computes), ops/common/quant_ref.hpp (how exactly).
#include "ops/quant/quantize_token/quantize_token_ref.hpp"
#include "ops/quant/row_scales.hpp"

namespace dlblas::quant {

OperatorDef quantize_token();
OperatorDef quantize_token() {
  OperatorDef def;
  def.family = "quant";
  def.schema =
      "quantize_token(x: f[*T, K], dtype: dtype(f8|i8) = none, "
      "scale_dtype: \"f32\"|\"ue8m0\" = \"f32\" runtime) -> "
      "(q: dtype|f8e4m3[*T, K], scale: f32[*T, 1]) where T: bucket(tokens)";
  def.formula = "scale = max_K |x| / largest; q = round(x / scale)";
  def.letters = {"T", "K"};
  kernels::set_row_oracle<quantize_token_row<kernels::HostRow>>(def);
  def.bound = [](const Problem&, int judged) { return quantize_bound(judged); };
  def.work_per_row = [](const Problem& problem) {
    return 12.0 * static_cast<double>(problem.dims[kQuantizeK]);
  };
  kernels::add_row_implementations(def, {.program = "quantize_token",
                                         .width = "K",
                                         .operands = {"x", "q", "scale"},
                                         .reduces = true,
                                         .fill = fill_scales<kQuantizeScaleDtype>});
  return def;
}

}  // namespace dlblas::quant
