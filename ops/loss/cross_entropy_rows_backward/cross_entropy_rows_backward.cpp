// cross_entropy_rows_backward: schema, oracle and program. Everything else is derived from these.
// Read next: cross_entropy_rows_backward_program.hpp (what it computes),
// cross_entropy_rows_backward_ref.hpp (how exactly).
#include "ops/loss/cross_entropy_ops.hpp"
#include "ops/loss/cross_entropy_rows_backward/cross_entropy_rows_backward_ref.hpp"

namespace dlblas::loss {

OperatorDef cross_entropy_rows_backward();
OperatorDef cross_entropy_rows_backward() {
  OperatorDef def;
  def.family = "loss";
  def.schema =
      "cross_entropy_rows_backward(dloss: f32[*T, 1], logits: f[*T, C], target: index[*T] ~ "
      "index<C, lse: f32[*T, 1], dlse: f32[*T, 1]?, class_weight: f32[C]? ~ positive, "
      "weight_sum: f32[]? ~ positive, ignore_index: int = -100, label_smoothing: float = 0 "
      "key(set=0.1), softcap: float = 0 key(set=30)) -> dlogits: like(logits)[*T, C] "
      "where T: bucket(tokens)";
  def.inplace = {
      "cross_entropy_rows_backward_(dloss, logits!dlogits, target, lse, dlse, class_weight, "
      "weight_sum, ignore_index, label_smoothing, softcap)"};
  def.formula =
      "p = exp(x − lse); dx = p · (g · ((1 − ε) · w_t + ε/C · sum(w)) + dlse) − g · ε/C · w − "
      "[c = t] · g · (1 − ε) · w_t";
  kernels::set_row_oracle<cross_entropy_rows_backward_row<kernels::HostRow>>(def);
  def.inputs_related = true;  // lse is that of the logits
  def.bound = [](const Problem& problem, int) {
    const FloatTraits out = float_traits(problem.tensors[kCrossBackwardLogits].dtype);
    return Bound{
        .magnitude = kRounding * (1 + out.eps), .value = out.eps / 2, .absolute = out.tiny};
  };
  add_cross_entropy<kCrossBackwardWeight, kCrossBackwardWeightSum, kCrossBackwardDlse, 16>(
      def, {.program = "cross_entropy_rows_backward",
            .width = "C",
            .operands = {"logits", "dlogits", "dloss", "lse", "dlse", "target", "class_weight",
                         "weight_sum"},
            .any_number = {"target"},
            .registers = 40,
            .access_registers = 12});
  return def;
}

}  // namespace dlblas::loss
