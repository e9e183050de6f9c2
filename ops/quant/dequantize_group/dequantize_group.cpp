// dequantize_group: schema, oracle and program. Everything else is derived from these.
// Read next: dequantize_group_program.hpp (what it computes), dequantize_group_ref.hpp (how
// exactly).
#include "kernels/rows.hpp"
#include "ops/quant/dequantize_group/dequantize_group_ref.hpp"

namespace dlblas::quant {

OperatorDef dequantize_group();
OperatorDef dequantize_group() {
  OperatorDef def;
  def.family = "quant";
  def.schema =
      "dequantize_group(q: f8|i8[*T, K], scale: f32[*T, K/group] ~ positive, group: dim = 128, "
      "out_dtype: dtype(f) = none) -> y: out_dtype|f32[*T, K] where T: bucket(tokens)";
  def.formula = "y = q · scale of the column's group";
  def.letters = {"T", "K", "group"};
  kernels::set_row_oracle<dequantize_group_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) {
    const DType dtype = problem.tensors[kDequantizeY].dtype;
    const FloatTraits out = float_traits(dtype);
    return Bound{.magnitude = kRounding * (1 + out.eps),
                 .value = dtype == DType::kF32 ? 0 : out.eps / 2,
                 .absolute = out.tiny / 2};
  };
  def.work_per_row = [](const Problem& problem) {
    return 2.0 * static_cast<double>(problem.dims[kDequantizeK]);
  };
  kernels::add_row_implementations(def, {.program = "dequantize_group",
                                         .width = "K",
                                         .operands = {"q", "scale", "y"},
                                         .group = "group",
                                         .registers = 20,
                                         .access_registers = 4});
  return def;
}

}  // namespace dlblas::quant
