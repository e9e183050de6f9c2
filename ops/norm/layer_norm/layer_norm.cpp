// layer_norm over the last dimension: schema, oracle and program. Everything else is derived from
// these. Read next: layer_norm_program.hpp (what it computes), layer_norm_ref.hpp (how exactly).
#include "kernels/rows.hpp"
#include "ops/norm/layer_norm/layer_norm_ref.hpp"

namespace dlblas::norm {

OperatorDef layer_norm();
OperatorDef layer_norm() {
  OperatorDef def;
  def.family = "norm";
  def.schema =
      "layer_norm(x: f[*T, C], weight: like(x)|f32[C]?, bias: like(x)|f32[C]?, "
      "eps: float = 1e-5) -> y: like(x)[*T, C] where T: bucket(tokens)";
  def.inplace = {"layer_norm_(x!y, weight, bias, eps)"};
  def.formula = "y = (x − mean_C(x)) · rsqrt(var_C(x) + eps) · weight + bias";
  def.letters = {"T", "C"};
  kernels::set_row_oracle<layer_norm_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) {
    return layer_norm_bound(problem.tensors[kLayerNormX].dtype);
  };
  def.work_per_row = [](const Problem& problem) {
    return 12.0 * static_cast<double>(problem.dims[kLayerNormC]);
  };
  kernels::add_row_implementations(
      def, {.program = "layer_norm",
            .width = "C",
            .operands = {"x", "weight", "bias", "y"},
            .reduces = true,
            .variants = 2,
            .cluster_variants = true,
            .registers = 32,
            .access_registers = 8,
            .late_access_registers = 6,
            .fill =
                [](const Args& args, RowCall& call) {
                  fill_layer_norm(args.scalars[kLayerNormEps].f, args.letters[kLayerNormC], call);
                },
            .choose =
                [](const Problem& problem, std::int32_t* options) {
                  options[0] = problem.tensors[kLayerNormWeight].dtype != DType::kAbsent;
                  options[1] = problem.tensors[kLayerNormBias].dtype != DType::kAbsent;
                }});
  return def;
}

}  // namespace dlblas::norm
