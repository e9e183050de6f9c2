// gptq_dequantize: schema and oracle; the kernels are shared by all 4-bit weights.
// Read next: ops/w4/weights_ref.hpp (how exactly), ops/w4/dequantize.hpp.
#include "ops/w4/gptq_dequantize/gptq_dequantize_ref.hpp"

#include "ops/w4/dequantize.hpp"

namespace dlblas::w4 {

OperatorDef gptq_dequantize();
OperatorDef gptq_dequantize() {
  static constexpr W4Op kOp = {.along_k = true, .plus = kGptqMinusOne};
  OperatorDef def = w4_dequantize(
      "gptq_dequantize(qweight: i32[Q, N] ~ bits, scales: f[8Q//group, N], "
      "qzeros: i32[8Q//group, N/8]? ~ bits, group: dim = 128, "
      "zeros_minus_one: bool = true runtime) -> y: like(scales)[8Q, N]",
      "y = (q − zero) · scale, of the row's group", kOp);
  def.letters = {"Q", "N", "group"};
  kernels::set_row_oracle<gptq_dequantize_row<kernels::HostRow>>(def);
  def.work_per_row = [](const Problem& problem) {
    return 4.0 * static_cast<double>(problem.dims[kGptqN]);
  };
  return def;
}

}  // namespace dlblas::w4
