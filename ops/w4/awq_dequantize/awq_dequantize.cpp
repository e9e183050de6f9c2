// awq_dequantize: schema and oracle; the kernels are shared by all 4-bit weights.
// Read next: ops/w4/weights_ref.hpp (how exactly), ops/w4/dequantize.hpp.
#include "ops/w4/awq_dequantize/awq_dequantize_ref.hpp"

#include "ops/w4/dequantize.hpp"

namespace dlblas::w4 {

OperatorDef awq_dequantize();
OperatorDef awq_dequantize() {
  static constexpr W4Op kOp = {};
  OperatorDef def = w4_dequantize(
      "awq_dequantize(qweight: i32[R*G, P] ~ bits, scales: f[R, 8P], "
      "qzeros: i32[R, P]? ~ bits) -> y: like(scales)[R*G, 8P]",
      "y = (q − zero) · scale, of the row's group", kOp);
  def.letters = {"R", "G", "P"};
  kernels::set_row_oracle<awq_dequantize_row<kernels::HostRow>>(def);
  def.work_per_row = [](const Problem& problem) {
    return 32.0 * static_cast<double>(problem.dims[kAwqP]);
  };
  return def;
}

}  // namespace dlblas::w4
