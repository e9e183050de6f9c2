// lora_expand: schema and oracle; kernels are in ops/gemm/lora/.
// Read next: lora_expand_ref.hpp, ops/gemm/lora/lora_impl.cpp.
#include "ops/gemm/lora_expand/lora_expand_ref.hpp"

#include "ops/gemm/lora/lora.hpp"

namespace dlblas::gemm {

OperatorDef lora_expand();
OperatorDef lora_expand() {
  OperatorDef def;
  def.family = "gemm";
  def.schema =
      "lora_expand(x: f[T, R], b: like(x)|f16|bf16[L, N, R], token_lora: index[T] ~ index<L|-1, "
      "y: like(b)|f32[T, N]!, scale: float = 1) -> () where T: bucket(tokens)";
  def.formula = "y[t] += scale · x[t] · W[token_lora[t]]ᵀ where token_lora[t] ≥ 0";
  def.letters = {"T", "R", "L", "N"};
  def.addresses = {"token_lora"};
  kernels::set_row_oracle<lora_expand_row<kernels::HostRow>>(def);
  def.bound = lora_bound;
  def.work_per_row = lora_work_per_row;
  def.implementations = lora_implementations();
  return def;
}

}  // namespace dlblas::gemm
