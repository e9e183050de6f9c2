// topk_softmax, the gating of a mixture of experts: schema, oracle, judge and program. Everything
// else is derived from these. Read next: topk_softmax_program.hpp (what it computes),
// topk_softmax_ref.hpp (how exactly).
#include "core/error.hpp"
#include "kernels/rows.hpp"
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
      "ids = the topk largest of logits; weights = softmax_E(logits)[ids], over their sum if "
      "renormalize";
  def.letters = {"T", "E", "topk"};
  def.reference = topk_softmax_reference;
  def.judge = topk_softmax_judge;
  def.bound = [](const Problem&, int judged) {
    return judged == 1 ? Bound{} : Bound{.magnitude = kRounding, .absolute = 0x1p-123};
  };
  def.check = [](const Args& args) {
    constexpr std::int64_t kMax = 64;  // cpu/row/values.hpp keeps as many
    const std::int64_t topk = args.letters[kTopkK], most = std::min(args.letters[kTopkE], kMax);
    if (topk <= most) return;
    const std::string expected = text("at most ", most, " of ", args.letters[kTopkE], " experts");
    throw Error(ErrorKind::kArgument,
                text("topk_softmax: topk is too large; expected ", expected, ", got ", topk),
                {"topk_softmax", "topk", expected, text(topk)});
  };
  def.work_per_row = [](const Problem& problem) {
    return 24.0 * static_cast<double>(problem.dims[kTopkE]);
  };
  kernels::add_row_implementations(def, {.program = "topk_softmax",
                                         .width = "E",
                                         .operands = {"logits", "weights", "ids"},
                                         .reduces = true,
                                         .selects = true,
                                         .registers = 48,
                                         .fill = [](const Args& args, RowCall& call) {
                                           call.n[0] = args.letters[kTopkK];
                                           call.n[1] = args.scalars[kTopkRenormalize].i;
                                         }});
  return def;
}

}  // namespace dlblas::moe
