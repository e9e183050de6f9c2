// topk_sigmoid, the gating of a mixture of experts by sigmoids: schema, gates and program.
// Everything else is derived from these. Read next: topk_sigmoid_program.hpp (what it computes),
// topk_sigmoid_ref.hpp (how exactly).
#include "ops/moe/topk_ops.hpp"
#include "ops/moe/topk_sigmoid/topk_sigmoid_ref.hpp"

namespace dlblas::moe {

OperatorDef topk_sigmoid();
OperatorDef topk_sigmoid() {
  OperatorDef def;
  def.family = "moe";
  def.schema =
      "topk_sigmoid(logits: f[*T, E], topk: dim, renormalize: bool = true) -> "
      "(weights: f32[*T, topk], ids: i32[*T, topk]) where T: bucket(tokens)";
  def.formula =
      "ids = the topk largest of logits; weights = sigmoid(logits)[ids], "
      "over their sum if renormalize";
  add_topk<SigmoidGates>(def, "topk_sigmoid");
  return def;
}

}  // namespace dlblas::moe
