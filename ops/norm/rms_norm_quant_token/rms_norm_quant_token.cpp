// rms_norm_quant_token: schema, oracle and program. Everything else is derived from these.
// Read next: rms_norm_quant_token_program.hpp (what it computes), ops/norm/rms_norm_quant_ref.hpp
// (how exactly).
#include "ops/norm/rms_norm_quant_rows.hpp"
#include "ops/norm/rms_norm_quant_token/rms_norm_quant_token_ref.hpp"

namespace dlblas::norm {

OperatorDef rms_norm_quant_token();
OperatorDef rms_norm_quant_token() {
  OperatorDef def;
  def.family = "norm";
  def.schema =
      "rms_norm_quant_token(x: f[*T, C], weight: like(x)|f32[C], eps: float = 1e-6, *, "
      "weight_offset: float = 0 key(set=1)) -> (q: f8e4m3[*T, C], scale: f32[*T, 1]) "
      "where T: bucket(tokens)";
  def.formula =
      "y = x · rsqrt(mean_C(x²) + eps) · (weight + weight_offset); "
      "scale = max_C |y| / 448; q = round(y / scale)";
  def.letters = {"T", "C"};
  kernels::set_row_oracle<rms_norm_quant_token_row<kernels::HostRow>>(def);
  add_codes_implementations(def, {.program = "rms_norm_quant_token",
                                  .operands = {"x", "weight", "q", "scale"},
                                  .grouped = false,
                                  .static_scale = false});
  return def;
}

}  // namespace dlblas::norm
