// group_norm_rows: schema, oracle and program. Everything else is derived from these. Read next:
// group_norm_rows_program.hpp (what it computes), group_norm_rows_ref.hpp (how exactly).
#include "kernels/rows.hpp"
#include "ops/norm/group_norm_rows/group_norm_rows_ref.hpp"

namespace dlblas::norm {

OperatorDef group_norm_rows();
OperatorDef group_norm_rows() {
  OperatorDef def;
  def.family = "norm";
  def.schema =
      "group_norm_rows(x: f[*T, C], weight: like(x)|f32[*T, C/inner]?, "
      "bias: like(x)|f32[*T, C/inner]?, inner: dim = 1, eps: float = 1e-5, "
      "activation: \"\"|\"silu\" = \"\") -> y: like(x)[*T, C] where T: bucket(tokens)";
  def.inplace = {"group_norm_rows_(x!y, weight, bias, inner, eps, activation)"};
  def.formula =
      "y = (x − mean_C(x)) · rsqrt(var_C(x) + eps) · weight + bias, of the row's group of inner "
      "columns; silu of it";
  def.letters = {"T", "C", "inner"};
  kernels::set_row_oracle<group_norm_rows_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) {
    const FloatTraits out = float_traits(problem.tensors[kGroupNormX].dtype);
    return Bound{
        .magnitude = kRounding * (1 + out.eps), .value = out.eps / 2, .absolute = out.tiny};
  };
  def.work_per_row = [](const Problem& problem) {
    return 16.0 * static_cast<double>(problem.dims[kGroupNormC]);
  };
  kernels::add_row_implementations(
      def, {.program = "group_norm_rows",
            .width = "C",
            .operands = {"x", "weight", "bias", "y"},
            .reduces = true,
            .group = "inner",
            .registers = 40,
            .access_registers = 8,
            .fill =
                [](const Args& args, RowCall& call) {
                  fill_layer_norm(args.scalars[1].f, args.letters[kGroupNormC], call);
                },
            .choose =
                [](const Problem& problem, std::int32_t* options) {
                  options[0] = problem.tensors[kGroupNormWeight].dtype != DType::kAbsent;
                  options[1] = problem.tensors[kGroupNormBias].dtype != DType::kAbsent;
                  options[2] = problem.scalars[0] == 1;
                }});
  return def;
}

}  // namespace dlblas::norm
