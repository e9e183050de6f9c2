// dequantize_channel: schema, oracle and program. Everything else is derived from these.
// Read next: dequantize_channel_program.hpp (what it computes), dequantize_channel_ref.hpp (how
// exactly).
#include "kernels/rows.hpp"
#include "ops/quant/dequantize_channel/dequantize_channel_ref.hpp"

namespace dlblas::quant {

OperatorDef dequantize_channel();
OperatorDef dequantize_channel() {
  OperatorDef def;
  def.family = "quant";
  def.schema =
      "dequantize_channel(q: f8|i8[*T, K], scale: f32[K] ~ positive, out_dtype: dtype(f) = none) "
      "-> y: out_dtype|f32[*T, K] where T: bucket(tokens)";
  def.formula = "y = q · scale of the column";
  def.letters = {"T", "K"};
  kernels::set_row_oracle<dequantize_channel_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) {
    const DType dtype = problem.tensors[kDequantizeChannelY].dtype;
    const FloatTraits out = float_traits(dtype);
    return Bound{.magnitude = kRounding * (1 + out.eps),
                 .value = dtype == DType::kF32 ? 0 : out.eps / 2,
                 .absolute = out.tiny / 2};
  };
  def.work_per_row = [](const Problem& problem) {
    return 2.0 * static_cast<double>(problem.dims[kDequantizeChannelK]);
  };
  kernels::add_row_implementations(def, {.program = "dequantize_channel",
                                         .width = "K",
                                         .operands = {"q", "scale", "y"},
                                         .registers = 24,
                                         .access_registers = 16});
  return def;
}

}  // namespace dlblas::quant
