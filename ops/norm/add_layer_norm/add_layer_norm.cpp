// add_layer_norm: schema, oracle and program. Everything else is derived from these.
// Read next: add_layer_norm_program.hpp (what it computes), add_layer_norm_ref.hpp (how exactly).
#include "ops/norm/add_layer_norm/add_layer_norm_ref.hpp"

#include "kernels/rows.hpp"
#include "ops/check_eps.hpp"

namespace dlblas::norm {

OperatorDef add_layer_norm();
OperatorDef add_layer_norm() {
  OperatorDef def;
  def.family = "norm";
  def.schema =
      "add_layer_norm(x: f[*T, C], residual: like(x)[*T, C], weight: like(x)|f32[C]?, "
      "bias: like(x)|f32[C]?, eps: float = 1e-5) -> "
      "(y: like(x)[*T, C], residual_out: like(x)[*T, C]) where T: bucket(tokens)";
  def.inplace = {"add_layer_norm_(x!y, residual!residual_out, weight, bias, eps)"};
  def.formula =
      "h = round(x + residual); residual_out = h; "
      "y = (h − mean_C(h)) · rsqrt(var_C(h) + eps) · weight + bias";
  def.letters = {"T", "C"};
  kernels::set_row_oracle<add_layer_norm_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int result) {
    return result == kAddLayerNormY ? layer_norm_bound(problem.tensors[kAddLayerNormX].dtype)
                                    : kHiddenBound;
  };
  def.check = check_eps<kLayerNormEps>;
  def.work_per_row = [](const Problem& problem) {
    return 13.0 * static_cast<double>(problem.dims[kC]);
  };
  kernels::add_row_implementations(
      def, {.program = "add_layer_norm",
            .width = "C",
            .operands = {"x", "weight", "bias", "y", "residual", "residual_out"},
            .reduces = true,
            .registers = 32,
            .access_registers = 12,
            .kept = {"x"},
            .fill =
                [](const Args& args, RowCall& call) {
                  fill_layer_norm(args.scalars[kLayerNormEps].f, args.letters[kC], call);
                },
            .choose =
                [](const Problem& problem, std::int32_t* options) {
                  options[0] = problem.tensors[kAddLayerNormWeight].dtype != DType::kAbsent;
                  options[1] = problem.tensors[kAddLayerNormBias].dtype != DType::kAbsent;
                }});
  return def;
}

}  // namespace dlblas::norm
