// mm_w4a16_awq: schema and oracle; the kernels are shared by all 4-bit weights.
// Read next: ops/w4/weights_ref.hpp (how exactly), ops/w4/product.hpp.
#include "ops/w4/mm_w4a16_awq/mm_w4a16_awq_ref.hpp"

#include "ops/w4/product.hpp"

namespace dlblas::w4 {

OperatorDef mm_w4a16_awq();
OperatorDef mm_w4a16_awq() {
  static constexpr ProductOp kOp = {.dequantize = "awq_dequantize"};
  OperatorDef def = w4_product(
      "mm_w4a16_awq(x: f16|bf16[*M, K], qweight: i32[K, P] ~ bits, "
      "scales: like(x)[K//group, 8P], zeros: i32[K//group, P]? ~ bits, "
      "group: dim = 128) -> y: like(x)[*M, 8P] where M: bucket(tokens)",
      "y = x · round((q − zero) · scale)", kOp);
  def.letters = {"M", "K", "P", "group"};
  kernels::set_row_oracle<mm_w4a16_awq_row<kernels::HostRow>>(def);
  return def;
}

}  // namespace dlblas::w4
