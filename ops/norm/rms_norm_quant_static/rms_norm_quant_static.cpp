// rms_norm_quant_static: schema, oracle and program. Everything else is derived from these.
// Read next: rms_norm_quant_static_program.hpp (what it computes), ops/norm/rms_norm_quant_ref.hpp
// (how exactly).
#include "ops/check_scale.hpp"
#include "ops/norm/rms_norm_quant_rows.hpp"
#include "ops/norm/rms_norm_quant_static/rms_norm_quant_static_ref.hpp"

namespace dlblas::norm {

OperatorDef rms_norm_quant_static();
OperatorDef rms_norm_quant_static() {
  OperatorDef def;
  def.family = "norm";
  def.schema =
      "rms_norm_quant_static(x: f[*T, C], weight: like(x)|f32[C], scale: f32[] ~ positive, "
      "eps: float = 1e-6, *, weight_offset: float = 0 key(set=1)) -> q: f8e4m3[*T, C] "
      "where T: bucket(tokens)";
  def.formula =
      "y = x · rsqrt(mean_C(x²) + eps) · (weight + weight_offset); "
      "q = round(y / scale)";
  def.letters = {"T", "C"};
  kernels::set_row_oracle<rms_norm_quant_static_row<kernels::HostRow>>(def);
  add_codes_implementations(def, {.program = "rms_norm_quant_static",
                                  .operands = {"x", "weight", "q", "scale"},
                                  .grouped = false,
                                  .static_scale = true});
  def.check = [](const Args& args) {
    check_codes(args);
    quant::check_scale(args, kRmsNormQuantStaticScale);
  };
  return def;
}

}  // namespace dlblas::norm
