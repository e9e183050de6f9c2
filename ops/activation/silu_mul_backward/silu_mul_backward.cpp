// silu_mul_backward: schema, oracle and program. Everything else is derived from these.
// Read next: silu_mul_backward_program.hpp (what it computes), silu_mul_backward_ref.hpp.
#include "ops/activation/gated_ops.hpp"
#include "ops/activation/silu_mul_backward/silu_mul_backward_ref.hpp"

namespace dlblas::activation {

OperatorDef silu_mul_backward();
OperatorDef silu_mul_backward() {
  OperatorDef def;
  def.family = "activation";
  def.schema =
      "silu_mul_backward(dy: f[*T, F], gate: like(dy)[*T, F], up: like(dy)[*T, F], *, "
      "cast_before_mul: bool = false) -> (dgate: like(dy)[*T, F], dup: like(dy)[*T, F]) "
      "where T: bucket(tokens)";
  def.formula =
      "s = 1 / (1 + e^−gate); dgate = dy · up · s · (1 + gate · (1 − s)); dup = dy · gate · s";
  def.letters = {"T", "F"};
  kernels::set_row_oracle<silu_mul_backward_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) {
    return rounded_once(problem.tensors[kMulBackwardDy].dtype);
  };
  def.work_per_row = [](const Problem& p) {
    return 24.0 * static_cast<double>(p.dims[kMulBackwardF]);
  };
  kernels::RowOp op = {.program = "silu_mul_backward",
                       .width = "F",
                       .operands = {"dy", "gate", "up", "dgate", "dup"}};
  op.choose = [](const Problem& problem, std::int32_t* options) {
    // A value in f32 is already rounded to f32.
    options[0] = problem.scalars[kMulBackwardCast] != 0 &&
                 problem.tensors[kMulBackwardDy].dtype != DType::kF32;
  };
  kernels::add_row_implementations(def, op);
  return def;
}

}  // namespace dlblas::activation
