// rms_norm_quant_group: schema, oracle and program. Everything else is derived from these.
// Read next: rms_norm_quant_group_program.hpp (what it computes), ops/norm/rms_norm_quant_ref.hpp
// (how exactly).
#include "ops/norm/rms_norm_quant_group/rms_norm_quant_group_ref.hpp"
#include "ops/norm/rms_norm_quant_rows.hpp"

namespace dlblas::norm {

OperatorDef rms_norm_quant_group();
OperatorDef rms_norm_quant_group() {
  OperatorDef def;
  def.family = "norm";
  def.schema =
      "rms_norm_quant_group(x: f[*T, C], weight: like(x)|f32[C], eps: float = 1e-6, *, "
      "weight_offset: float = 0 key(set=1), group: dim = 128) -> (q: f8e4m3[*T, C], scale: f32[*T, "
      "C/group]) where T: bucket(tokens)";
  def.formula =
      "y = x · rsqrt(mean_C(x²) + eps) · (weight + weight_offset); "
      "scale = max |y| / 448 of each group; q = round(y / scale)";
  def.letters = {"T", "C", "group"};
  kernels::set_row_oracle<rms_norm_quant_group_row<kernels::HostRow>>(def);
  add_codes_implementations(def, {.program = "rms_norm_quant_group",
                                  .operands = {"x", "weight", "q", "scale"},
                                  .grouped = true,
                                  .static_scale = false});
  return def;
}

}  // namespace dlblas::norm
