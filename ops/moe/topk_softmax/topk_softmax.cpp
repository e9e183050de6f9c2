// topk_softmax, the gating of a mixture of experts: schema, oracle, judge and program. Everything
// else is derived from these. Read next: topk_softmax_program.hpp (what it computes),
// topk_softmax_ref.hpp (how exactly).
#include "ops/moe/topk_ops.hpp"
#include "ops/moe/topk_softmax/topk_softmax_ref.hpp"

namespace dlblas::moe {

OperatorDef topk_softmax();
OperatorDef topk_softmax() {
  OperatorDef def;
  def.family = "moe";
  def.schema =
      "topk_softmax(logits: f[*T, E], topk: dim, renormalize: bool = true) -> "
      "(weights: f32[*T, topk], ids: i32[*T, topk]) where T: bucket(tokens)";
  def.formula =
      "ids = the topk largest of logits; weights = softmax_E(logits)[ids], "
      "over their sum if renormalize";
  add_topk<SoftmaxGates>(def, "topk_softmax");
  return def;
}

}  // namespace dlblas::moe
