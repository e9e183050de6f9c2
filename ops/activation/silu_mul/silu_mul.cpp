// silu_mul: schema, oracle and program. Everything else is derived from these.
// Read next: silu_mul_program.hpp (what it computes), silu_mul_ref.hpp (how exactly).
#include "ops/activation/gated_ops.hpp"
#include "ops/activation/silu_mul/silu_mul_ref.hpp"

namespace dlblas::activation {

OperatorDef silu_mul();
OperatorDef silu_mul() {
  OperatorDef def;
  def.family = "activation";
  def.schema =
      "silu_mul(gate: f[*T, F], up: like(gate)[*T, F], *, cast_before_mul: bool = false) "
      "-> y: like(gate)[*T, F] where T: bucket(tokens)";
  def.formula = "y = gate / (1 + e^−gate) · up";
  def.letters = {"T", "F"};
  kernels::set_row_oracle<silu_mul_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) {
    return rounded_once(problem.tensors[kMulGate].dtype);
  };
  def.work_per_row = [](const Problem& p) { return 8.0 * static_cast<double>(p.dims[kMulF]); };
  kernels::RowOp op = {.program = "silu_mul", .width = "F", .operands = {"gate", "up", "y"}};
  op.choose = [](const Problem& problem, std::int32_t* options) {
    // A value in f32 is already rounded to f32.
    options[0] = problem.scalars[kMulCast] != 0 && problem.tensors[kMulGate].dtype != DType::kF32;
  };
  kernels::add_row_implementations(def, op);
  return def;
}

}  // namespace dlblas::activation
