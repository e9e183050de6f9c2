// layernorm_gated_rows: schema, oracle and program. Everything else is derived from these. Read
// next: layernorm_gated_rows_program.hpp (what it computes), layernorm_gated_rows_ref.hpp (how
// exactly).
#include "ops/norm/layer_norm_ops.hpp"
#include "ops/norm/layernorm_gated_rows/layernorm_gated_rows_ref.hpp"

namespace dlblas::norm {

OperatorDef layernorm_gated_rows();
OperatorDef layernorm_gated_rows() {
  OperatorDef def;
  def.family = "norm";
  def.schema =
      "layernorm_gated_rows(x: f[*T, C], weight: like(x)|f32[groups, C]?, "
      "bias: like(x)|f32[groups, C]?, z: like(x)[*T, C]?, groups: dim = 1, eps: float = 1e-6, "
      "norm_before_gate: bool = true, is_rms_norm: bool = false) "
      "-> y: like(x)[*T, C] where T: bucket(tokens)";
  def.inplace = {
      "layernorm_gated_rows_(x!y, weight, bias, z, groups, eps, norm_before_gate, is_rms_norm)"};
  def.formula =
      "n(v) = (v − mean_C(v)) · rsqrt(var_C(v) + eps) · weight + bias, or v · rsqrt(mean_C(v²) + "
      "eps) · weight + bias, of row t % groups; y = n(x) · silu(z) or n(x · silu(z))";
  def.letters = {"T", "C", "groups"};
  kernels::set_row_oracle<layernorm_gated_rows_row<kernels::HostRow>>(def);
  def.bound = bound_behind<kGatedX>;
  def.check = check_phases<kGatedEps, kGatedGroups>;
  def.work_per_row = work_of_row<24, kLayerNormC>;
  kernels::add_row_implementations(
      def, {.program = "layernorm_gated_rows",
            .width = "C",
            .operands = {"x", "weight", "bias", "y", "z"},
            .period = "groups",
            .reduces = true,
            .registers = 16,
            .access_registers = 16,
            .kept = {"z"},
            .kept_values = 1,
            .fill = fill_layer_norm_row<kGatedEps, kLayerNormC>,
            .choose = [](const Problem& problem, std::int32_t* options) {
              const bool gated = problem.tensors[kGatedZ].dtype != DType::kAbsent;
              choose_layer_norm<kGatedWeight, kGatedBias>(problem, options);
              options[2] = !gated ? 0 : problem.scalars[0] != 0 ? 1 : 2;
              options[3] = problem.scalars[1] != 0;
            }});
  return def;
}

}  // namespace dlblas::norm
