// cross_entropy_rows: schema, oracle and program. Everything else is derived from these. Read next:
// cross_entropy_rows_program.hpp (what it computes), cross_entropy_rows_ref.hpp (how exactly).
#include "ops/loss/cross_entropy_ops.hpp"
#include "ops/loss/cross_entropy_rows/cross_entropy_rows_ref.hpp"

namespace dlblas::loss {

OperatorDef cross_entropy_rows();
OperatorDef cross_entropy_rows() {
  OperatorDef def;
  def.family = "loss";
  def.schema =
      "cross_entropy_rows(logits: f[*T, C], target: index[*T] ~ index<C, class_weight: f32[C]? ~ "
      "positive, weight_sum: f32[]? ~ positive, ignore_index: int = -100, label_smoothing: float = "
      "0 key(set=0.1), softcap: float = 0 key(set=30)) -> (loss: f32[*T, 1], lse: f32[*T, 1]) "
      "where T: bucket(tokens)";
  def.formula =
      "lse = log sum_C exp(x); loss = (1 − ε) · w_t · (lse − x_t) + ε/C · sum_C w · (lse − x)";
  kernels::set_row_oracle<cross_entropy_rows_row<kernels::HostRow>>(def);
  def.bound = [](const Problem&, int) {
    return Bound{.magnitude = kRounding, .value = 0, .absolute = 0x1p-126};
  };
  add_cross_entropy<kCrossWeight, kCrossWeightSum, -1, 24>(
      def, {.program = "cross_entropy_rows",
            .width = "C",
            .operands = {"logits", "class_weight", "weight_sum", "target", "loss", "lse"},
            .any_number = {"target"},
            .reduces = true,
            .access_registers = 3,
            .reads_once = [](const Problem& p) { return p.scalars[kSmoothing] == 0; }});
  return def;
}

}  // namespace dlblas::loss
