// add_rms_norm_quant_static: schema, oracle and program. Everything else is derived from these.
// Read next: add_rms_norm_quant_static_program.hpp (what it computes),
// ops/norm/rms_norm_quant_ref.hpp (how exactly).
#include "ops/check_scale.hpp"
#include "ops/norm/add_rms_norm_quant_static/add_rms_norm_quant_static_ref.hpp"
#include "ops/norm/rms_norm_quant_rows.hpp"

namespace dlblas::norm {

OperatorDef add_rms_norm_quant_static();
OperatorDef add_rms_norm_quant_static() {
  OperatorDef def;
  def.family = "norm";
  def.schema =
      "add_rms_norm_quant_static(x: f[*T, C], weight: like(x)|f32[C], residual: like(x)[*T, C],"
      " scale: f32[] ~ positive, eps: float = 1e-6, *, weight_offset: float = 0 key(set=1)) -> (q: "
      "f8e4m3[*T, C], residual_out: like(x)[*T, C]) where T: bucket(tokens)";
  def.inplace = {
      "add_rms_norm_quant_static_(x, residual!residual_out, weight, scale, eps, *, weight_offset)"};
  def.formula =
      "h = round(x + residual); residual_out = h; "
      "y = h · rsqrt(mean_C(h²) + eps) · (weight + weight_offset); q = round(y / scale)";
  def.letters = {"T", "C"};
  kernels::set_row_oracle<add_rms_norm_quant_static_row<kernels::HostRow>>(def);
  add_codes_implementations(def,
                            {.program = "add_rms_norm_quant_static",
                             .operands = {"x", "weight", "q", "scale", "residual", "residual_out"},
                             .grouped = false,
                             .static_scale = true});
  def.check = [](const Args& args) {
    check_codes(args);
    quant::check_scale(args, kAddRmsNormQuantStaticScale);
  };
  return def;
}

}  // namespace dlblas::norm
