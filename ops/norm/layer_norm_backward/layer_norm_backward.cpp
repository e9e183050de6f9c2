// layer_norm_backward over the last dimension: schema, oracle and program. Everything else is
// derived from these. Read next: layer_norm_backward_program.hpp (what it computes),
// layer_norm_backward_ref.hpp (how exactly).
#include "ops/norm/layer_norm_backward/layer_norm_backward_ref.hpp"
#include "ops/norm/layer_norm_ops.hpp"

namespace dlblas::norm {

OperatorDef layer_norm_backward();
OperatorDef layer_norm_backward() {
  OperatorDef def;
  def.family = "norm";
  def.schema =
      "layer_norm_backward(dy: f[*T, C], x: like(dy)[*T, C], weight: like(dy)|f32[C]?, "
      "eps: float = 1e-5) -> (dx: like(dy)[*T, C], dweight: like(weight|f32)[C], "
      "dbias: like(weight|f32)[C]) where T: bucket(tokens)";
  def.formula =
      "r = rsqrt(var_C(x) + eps); n = (x − mean_C(x)) · r; g = dy · weight; "
      "dx = r · (g − mean_C(g) − n · mean_C(g · n)); dweight = sum_T(dy · n); dbias = sum_T(dy)";
  def.letters = {"T", "C"};
  kernels::set_shared_row_oracle<layer_norm_backward_shared<kernels::HostRow>,
                                 layer_norm_backward_row<kernels::HostRow>,
                                 layer_norm_backward_size>(def);
  def.bound = bound_of_gradient<kGradDx>;
  def.check = check_eps<kGradEps>;
  def.work_per_row = work_of_row<30, kLayerNormC>;
  kernels::add_row_implementations(def,
                                   {.program = "layer_norm_backward",
                                    .width = "C",
                                    .operands = {"x", "weight", "dy", "dx", "dweight", "dbias"},
                                    .reduces = true,
                                    .registers = 32,
                                    .access_registers = 16,
                                    .fill = fill_layer_norm_row<kGradEps, kLayerNormC>,
                                    .choose = choose_layer_norm<kGradWeight, -1>});
  return def;
}

}  // namespace dlblas::norm
