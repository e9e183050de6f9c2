// add_rms_norm_quant_group: schema, oracle and program. Everything else is derived from these.
// Read next: add_rms_norm_quant_group_program.hpp (what it computes),
// ops/norm/rms_norm_quant_ref.hpp (how exactly).
#include "ops/norm/add_rms_norm_quant_group/add_rms_norm_quant_group_ref.hpp"
#include "ops/norm/rms_norm_quant_rows.hpp"

namespace dlblas::norm {

OperatorDef add_rms_norm_quant_group();
OperatorDef add_rms_norm_quant_group() {
  OperatorDef def;
  def.family = "norm";
  def.schema =
      "add_rms_norm_quant_group(x: f[*T, C], weight: like(x)|f32[C], residual: like(x)[*T, C], "
      "eps: float = 1e-6, *, weight_offset: float = 0 key(set=1), group: dim = 128) "
      "-> (q: f8e4m3[*T, C], scale: f32[*T, C/group], residual_out: like(x)[*T, C]) "
      "where T: bucket(tokens)";
  def.inplace = {
      "add_rms_norm_quant_group_(x, residual!residual_out, weight, eps, *, weight_offset, group)"};
  def.formula =
      "h = round(x + residual); residual_out = h; "
      "y = h · rsqrt(mean_C(h²) + eps) · (weight + weight_offset); "
      "scale = max |y| / 448 of each group; q = round(y / scale)";
  def.letters = {"T", "C", "group"};
  kernels::set_row_oracle<add_rms_norm_quant_group_row<kernels::HostRow>>(def);
  add_codes_implementations(def,
                            {.program = "add_rms_norm_quant_group",
                             .operands = {"x", "weight", "q", "scale", "residual", "residual_out"},
                             .grouped = true,
                             .static_scale = false});
  return def;
}

}  // namespace dlblas::norm
