// Gated products and their gradients as operators. Read next: gated.hpp, gates_ref.hpp.
#include "ops/activation/gated_ops.hpp"

#include "ops/activation/gates_ref.hpp"

namespace dlblas::activation {

Bound rounded_once(DType type) {
  const FloatTraits out = float_traits(type);
  return {.magnitude = kRounding, .value = out.eps / 2, .absolute = out.tiny};
}

OperatorDef gated(const GatedOp& op) {
  OperatorDef def;
  def.family = "activation";
  def.schema = op.schema;
  def.formula = op.formula;
  def.letters = {"T", "F"};
  def.bound = [](const Problem& problem, int) { return rounded_once(problem.tensors[kX].dtype); };
  def.work_per_row = op.work_per_row;
  kernels::add_row_implementations(def, {.program = op.name, .width = "F", .operands = {"x", "y"}});
  return def;
}

OperatorDef gated_backward(const GatedOp& op) {
  OperatorDef def;
  def.family = "activation";
  def.schema = op.schema;
  def.formula = op.formula;
  def.letters = {"T", "F"};
  def.bound = [](const Problem& problem, int) {
    return rounded_once(problem.tensors[kBackwardDy].dtype);
  };
  def.work_per_row = op.work_per_row;
  kernels::add_row_implementations(
      def,
      {.program = op.name, .width = "F", .operands = {"dy", "x", "dx"}, .registers = op.registers});
  return def;
}

}  // namespace dlblas::activation
