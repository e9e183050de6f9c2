// group_norm_rows: schema, oracle and program. Everything else is derived from these. Read next:
// group_norm_rows_program.hpp (what it computes), group_norm_rows_ref.hpp (how exactly).
#include "ops/norm/group_norm_rows/group_norm_rows_ref.hpp"
#include "ops/norm/layer_norm_ops.hpp"

namespace dlblas::norm {

OperatorDef group_norm_rows();
OperatorDef group_norm_rows() {
  OperatorDef def;
  def.family = "norm";
  def.schema =
      "group_norm_rows(x: f[*T, C], weight: like(x)|f32[groups, C/inner]?, "
      "bias: like(x)|f32[groups, C/inner]?, groups: dim = 1, inner: dim = 1, eps: float = 1e-5, "
      "activation: \"\"|\"silu\" = \"\") -> y: like(x)[*T, C] where T: bucket(tokens)";
  def.inplace = {"group_norm_rows_(x!y, weight, bias, groups, inner, eps, activation)"};
  def.formula =
      "y = (x − mean_C(x)) · rsqrt(var_C(x) + eps) · weight + bias, of row t % groups and of the "
      "group of inner columns; silu of it";
  def.letters = {"T", "C", "groups", "inner"};
  kernels::set_row_oracle<group_norm_rows_row<kernels::HostRow>>(def);
  def.bound = bound_behind<kGroupNormX>;
  def.check = check_phases<kGroupNormEps, kGroupNormGroups>;
  def.work_per_row = work_of_row<16, kGroupNormC>;
  kernels::add_row_implementations(
      def, {.program = "group_norm_rows",
            .width = "C",
            .operands = {"x", "weight", "bias", "y"},
            .period = "groups",
            .reduces = true,
            .group = "inner",
            .registers = 40,
            .access_registers = 8,
            .fill = fill_layer_norm_row<kGroupNormEps, kGroupNormC>,
            .choose = [](const Problem& problem, std::int32_t* options) {
              choose_layer_norm<kGroupNormWeight, kGroupNormBias>(problem, options);
              options[2] = problem.scalars[0] == 1;
            }});
  return def;
}

}  // namespace dlblas::norm
