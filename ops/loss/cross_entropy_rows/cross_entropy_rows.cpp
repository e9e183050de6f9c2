// cross_entropy_rows: schema, oracle and program. Everything else is derived from these. Read next:
// cross_entropy_rows_program.hpp (what it computes), cross_entropy_rows_ref.hpp (how exactly).
#include "kernels/rows.hpp"
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
  def.letters = {"T", "C"};
  kernels::set_row_oracle<cross_entropy_rows_row<kernels::HostRow>>(def);
  def.bound = [](const Problem&, int) {
    return Bound{.magnitude = kRounding, .value = 0, .absolute = 0x1p-126};
  };
  def.work_per_row = [](const Problem& problem) {
    return 24.0 * static_cast<double>(problem.dims[kCrossC]);
  };
  def.check = [](const Args& args) { check_cross_entropy(args, kCrossWeight, kCrossWeightSum); };
  kernels::RowOp op = {
      .program = "cross_entropy_rows",
      .width = "C",
      .operands = {"logits", "class_weight", "weight_sum", "target", "loss", "lse"},
      .any_number = {"target"},
      .reduces = true,
      .access_registers = 3};
  op.fill = fill_cross_entropy;
  op.choose = [](const Problem& problem, std::int32_t* options) {
    choose_cross_entropy(problem, kCrossWeight, options);
  };
  kernels::add_row_implementations(def, op);
  return def;
}

}  // namespace dlblas::loss
