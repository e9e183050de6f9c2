// mm_w4a16_gptq: schema and oracle; the kernels are shared by all 4-bit weights.
// Read next: ops/w4/weights_ref.hpp (how exactly), ops/w4/product.hpp.
#include "ops/w4/mm_w4a16_gptq/mm_w4a16_gptq_ref.hpp"

#include "ops/w4/product.hpp"

namespace dlblas::w4 {

OperatorDef mm_w4a16_gptq();
OperatorDef mm_w4a16_gptq() {
  static constexpr ProductOp kOp = {
      .codes = Codes::kGptq, .dequantize = "gptq_dequantize", .plus = kMmGptqMinusOne};
  OperatorDef def = w4_product(
      "mm_w4a16_gptq(x: f16|bf16[*M, 8Q], qweight: i32[Q, N] ~ bits, "
      "scales: like(x)[8Q//group, N], zeros: i32[8Q//group, N/8]? ~ bits, "
      "group: dim = 128, zeros_minus_one: bool = true runtime) -> y: like(x)[*M, N] "
      "where M: bucket(tokens)",
      "y = x · round((q − zero) · scale)", kOp);
  def.letters = {"M", "Q", "N", "group"};
  kernels::set_row_oracle<mm_w4a16_gptq_row<kernels::HostRow>>(def);
  return def;
}

}  // namespace dlblas::w4
