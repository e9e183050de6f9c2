// What the definitions of routers share. Read next: ops/moe/topk_softmax/topk_softmax.cpp.
#pragma once

#include "core/error.hpp"
#include "kernels/rows.hpp"
#include "ops/moe/topk_ref.hpp"

namespace dlblas::moe {

/// All but family, schema and formula of an operator (logits, topk, renormalize) -> (weights, ids).
template <typename Gates>
void add_topk(OperatorDef& def, std::string_view program) {
  def.letters = {"T", "E", "topk"};
  def.reference = topk_reference<Gates>;
  def.judge = topk_judge<Gates>;
  def.bound = [](const Problem&, int judged) {
    return judged == 1 ? Bound{} : Bound{.magnitude = kRounding, .absolute = 0x1p-123};
  };
  def.check = [](const Args& args) {
    constexpr std::int64_t kMax = 64;  // cpu/row/values.hpp keeps as many
    const std::int64_t topk = args.letters[kTopkK], most = std::min(args.letters[kTopkE], kMax);
    if (topk <= most) return;
    const std::string expected = text("at most ", most, " of ", args.letters[kTopkE], " experts");
    throw Error(ErrorKind::kArgument,
                text(args.schema->name, ": topk is too large; expected ", expected, ", got ", topk),
                {args.schema->name, "topk", expected, text(topk)});
  };
  def.work_per_row = [](const Problem& problem) {
    return 24.0 * static_cast<double>(problem.dims[kTopkE]);
  };
  kernels::add_row_implementations(def, {.program = program,
                                         .width = "E",
                                         .operands = {"logits", "weights", "ids"},
                                         .reduces = true,
                                         .selects = true,
                                         .registers = 48,
                                         .fill = [](const Args& args, RowCall& call) {
                                           call.n[0] = args.letters[kTopkK];
                                           call.n[1] = args.scalars[kTopkRenormalize].i;
                                         }});
}

}  // namespace dlblas::moe
