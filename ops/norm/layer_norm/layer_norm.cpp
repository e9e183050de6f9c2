// layer_norm over the last dimension: schema, oracle and program. Everything else is derived from
// these. Read next: layer_norm_program.hpp (what it computes), layer_norm_ref.hpp (how exactly).
#include "ops/norm/layer_norm/layer_norm_ref.hpp"
#include "ops/norm/layer_norm_ops.hpp"

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
  def.check = check_eps<kLayerNormEps>;
  def.work_per_row = work_of_row<12, kLayerNormC>;
  kernels::add_row_implementations(def,
                                   {.program = "layer_norm",
                                    .width = "C",
                                    .operands = {"x", "weight", "bias", "y"},
                                    .reduces = true,
                                    .variants = 2,
                                    .cluster_variants = true,
                                    .registers = 32,
                                    .access_registers = 8,
                                    .late_access_registers = 6,
                                    .fill = fill_layer_norm_row<kLayerNormEps, kLayerNormC>,
                                    .choose = choose_layer_norm<kLayerNormWeight, kLayerNormBias>});
  return def;
}

}  // namespace dlblas::norm
