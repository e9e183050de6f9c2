// quantize_static: schema, oracle and program. Everything else is derived from these.
// Read next: quantize_static_program.hpp (what it computes), ops/quant_ref.hpp (how exactly).
#include "kernels/rows.hpp"
#include "ops/check_scale.hpp"
#include "ops/quant/quantize_static/quantize_static_ref.hpp"

namespace dlblas::quant {

OperatorDef quantize_static();
OperatorDef quantize_static() {
  OperatorDef def;
  def.family = "quant";
  def.schema =
      "quantize_static(x: f[*T, K], scale: f32[] ~ positive, dtype: dtype(f8|i8) = none) -> "
      "q: dtype|f8e4m3[*T, K] where T: bucket(tokens)";
  def.formula = "q = round(x / scale)";
  def.letters = {"T", "K"};
  def.check = check_scales<kQuantizeStaticScale>;
  kernels::set_row_oracle<quantize_static_row<kernels::HostRow>>(def);
  def.bound = [](const Problem&, int judged) { return quantize_bound(judged); };
  def.work_per_row = [](const Problem& problem) {
    return 6.0 * static_cast<double>(problem.dims[kQuantizeStaticK]);
  };
  kernels::add_row_implementations(
      def, {.program = "quantize_static", .width = "K", .operands = {"x", "q", "scale"}});
  return def;
}

}  // namespace dlblas::quant
