// log_softmax_backward over the last dimension: schema, oracle and program. Everything else is
// derived from these. Read next: log_softmax_backward_program.hpp (what it computes),
// log_softmax_backward_ref.hpp.
#include "kernels/rows.hpp"
#include "ops/norm/log_softmax_backward/log_softmax_backward_ref.hpp"

namespace dlblas::norm {

OperatorDef log_softmax_backward();
OperatorDef log_softmax_backward() {
  OperatorDef def;
  def.family = "norm";
  def.schema =
      "log_softmax_backward(dy: f[*T, C], y: like(dy)[*T, C]) -> dx: like(dy)[*T, C] "
      "where T: bucket(tokens)";
  def.formula = "dx = dy − exp(y) · sum_C(dy)";
  def.letters = {"T", "C"};
  def.inputs_related = true;  // y has logarithms of a row's shares
  kernels::set_row_oracle<log_softmax_backward_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) {
    const FloatTraits out = float_traits(problem.tensors[kLogSoftmaxBackwardDy].dtype);
    return Bound{.magnitude = kRounding, .value = out.eps / 2, .absolute = out.tiny};
  };
  def.work_per_row = [](const Problem& problem) {
    return 16.0 * static_cast<double>(problem.dims[kLogSoftmaxBackwardC]);
  };
  kernels::add_row_implementations(def, {.program = "log_softmax_backward",
                                         .width = "C",
                                         .operands = {"dy", "y", "dx"},
                                         .reduces = true,
                                         .registers = 16,
                                         .access_registers = 12});
  return def;
}

}  // namespace dlblas::norm
