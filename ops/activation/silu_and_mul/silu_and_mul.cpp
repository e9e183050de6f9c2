// silu_and_mul: schema, oracle and program. Everything else is derived from these.
// Read next: silu_and_mul_program.hpp (what it computes), silu_and_mul_ref.hpp (how exactly).
#include "kernels/rows.hpp"
#include "ops/activation/silu_and_mul/silu_and_mul_ref.hpp"

namespace dlblas::activation {

OperatorDef silu_and_mul();
OperatorDef silu_and_mul() {
  OperatorDef def;
  def.family = "activation";
  def.schema = "silu_and_mul(x: f[*T, 2F]) -> y: like(x)[*T, F] where T: bucket(tokens)";
  def.formula = "y = silu(x[:F]) · x[F:]";
  def.letters = {"T", "F"};
  kernels::set_row_oracle<silu_and_mul_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) {
    const FloatTraits out = float_traits(problem.tensors[kX].dtype);
    return Bound{.magnitude = kRounding, .value = out.eps / 2, .absolute = out.tiny};
  };
  def.work_per_row = [](const Problem& problem) {
    return 8.0 * static_cast<double>(problem.dims[kF]);
  };
  kernels::add_row_implementations(
      def, {.program = "silu_and_mul", .width = "F", .operands = {"x", "y"}});
  return def;
}

}  // namespace dlblas::activation
