// silu_and_mul_backward: schema, oracle and program. Everything else is derived from these.
// Read next: silu_and_mul_backward_program.hpp (what it computes), silu_and_mul_backward_ref.hpp.
#include "kernels/rows.hpp"
#include "ops/activation/silu_and_mul_backward/silu_and_mul_backward_ref.hpp"

namespace dlblas::activation {

OperatorDef silu_and_mul_backward();
OperatorDef silu_and_mul_backward() {
  OperatorDef def;
  def.family = "activation";
  def.schema =
      "silu_and_mul_backward(dy: f[*T, F], x: like(dy)[*T, 2F]) -> dx: like(dy)[*T, 2F] "
      "where T: bucket(tokens)";
  def.formula =
      "s = 1 / (1 + e^−x[:F]); dx = [dy · x[F:] · s · (1 + x[:F] · (1 − s)), dy · x[:F] · s]";
  def.letters = {"T", "F"};
  kernels::set_row_oracle<silu_and_mul_backward_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) {
    const FloatTraits out = float_traits(problem.tensors[kBackwardDy].dtype);
    return Bound{.magnitude = kRounding, .value = out.eps / 2, .absolute = out.tiny};
  };
  def.work_per_row = [](const Problem& problem) {
    return 24.0 * static_cast<double>(problem.dims[kBackwardF]);
  };
  kernels::add_row_implementations(
      def, {.program = "silu_and_mul_backward", .width = "F", .operands = {"dy", "x", "dx"}});
  return def;
}

}  // namespace dlblas::activation
