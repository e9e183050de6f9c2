// softmax_backward over the last dimension: schema, oracle and program. Everything else is derived
// from these. Read next: softmax_backward_program.hpp (what it computes), softmax_backward_ref.hpp.
#include "kernels/rows.hpp"
#include "ops/norm/softmax_backward/softmax_backward_ref.hpp"

namespace dlblas::norm {

OperatorDef softmax_backward();
OperatorDef softmax_backward() {
  OperatorDef def;
  def.family = "norm";
  def.schema =
      "softmax_backward(dy: f[*T, C], y: like(dy)[*T, C]) -> dx: like(dy)[*T, C] "
      "where T: bucket(tokens)";
  def.formula = "dx = y · (dy − sum_C(dy · y))";
  def.letters = {"T", "C"};
  kernels::set_row_oracle<softmax_backward_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) {
    const FloatTraits out = float_traits(problem.tensors[kSoftmaxBackwardDy].dtype);
    return Bound{.magnitude = kRounding, .value = out.eps / 2, .absolute = out.tiny};
  };
  def.work_per_row = [](const Problem& problem) {
    return 6.0 * static_cast<double>(problem.dims[kSoftmaxBackwardC]);
  };
  kernels::add_row_implementations(def, {.program = "softmax_backward",
                                         .width = "C",
                                         .operands = {"dy", "y", "dx"},
                                         .reduces = true,
                                         .registers = 16,
                                         .access_registers = 12});
  return def;
}

}  // namespace dlblas::norm
