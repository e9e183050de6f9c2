// merge_attention_states, which merges two partial attentions: schema, oracle and program.
// Read next: merge_attention_states_program.hpp (what it computes),
// merge_attention_states_ref.hpp (how exactly).
#include "core/error.hpp"
#include "kernels/rows.hpp"
#include "ops/attention/merge_attention_states/merge_attention_states_ref.hpp"

namespace dlblas::attention {

OperatorDef merge_attention_states();
OperatorDef merge_attention_states() {
  OperatorDef def;
  def.family = "attention";
  def.schema =
      "merge_attention_states(o1: f[*T, D], lse1: f32[*T], o2: like(o1)[*T, D], lse2: f32[*T]) "
      "-> (o: like(o1)[*T, D], lse: f32[*T]) where T: bucket(tokens)";
  def.formula =
      "w = e^(lse − max(lse1, lse2)); o = (w1 · o1 + w2 · o2) / (w1 + w2); "
      "lse = log(e^lse1 + e^lse2)";
  def.letters = {"T", "D"};
  kernels::set_row_oracle<merge_attention_states_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int result) {
    const FloatTraits out = float_traits(problem.tensors[kMergeO1].dtype);
    if (result == 1) return Bound{.magnitude = kRounding, .absolute = 0x1p-149};
    return Bound{.magnitude = kRounding, .value = out.eps / 2, .absolute = out.tiny};
  };
  def.check = [](const Args& args) {
    if (args.tensors[kMergeO1].rank > 1) return;
    throw Error(ErrorKind::kShape,
                "merge_attention_states: o1 has 1 dimension; expected 2 or more, [*T, D], got 1",
                {"merge_attention_states", "o1", "2 or more dimensions", "1"});
  };
  def.work_per_row = [](const Problem& problem) {
    return 3.0 * static_cast<double>(problem.dims[kMergeD]);
  };
  kernels::add_row_implementations(def, {.program = "merge_attention_states",
                                         .width = "D",
                                         .operands = {"o1", "lse1", "o2", "lse2", "o", "lse"},
                                         .registers = 40,
                                         .access_registers = 16});
  return def;
}

}  // namespace dlblas::attention
