// mm_w8a16_group: schema and oracle; the kernels are shared by all products with packed weights.
// Read next: mm_w8a16_group_ref.hpp (how exactly), ops/w4/product.hpp.
#include "ops/w4/mm_w8a16_group/mm_w8a16_group_ref.hpp"

#include "ops/w4/product.hpp"

namespace dlblas::w4 {

OperatorDef mm_w8a16_group();
OperatorDef mm_w8a16_group() {
  static constexpr ProductOp kOp = {.codes = Codes::kI8, .dequantize = "dequantize_group"};
  OperatorDef def = i8_product(
      "mm_w8a16_group(x: f16|bf16[*T, K], qweight: i8[N, K], scale: f32[N, K/group] ~ positive, "
      "bias: like(x)|f32[N]?, group: dim = 128) -> y: like(x)[*T, N] where T: bucket(tokens)",
      "y = x · (q · scale)ᵀ + bias", kOp);
  def.letters = {"T", "K", "N", "group"};
  kernels::set_row_oracle<mm_w8a16_group_row<kernels::HostRow>>(def);
  return def;
}

}  // namespace dlblas::w4
