// lora_shrink: schema and oracle; kernels are in ops/gemm/lora/.
// Read next: lora_shrink_ref.hpp, ops/gemm/lora/lora_impl.cpp.
#include "ops/gemm/lora_shrink/lora_shrink_ref.hpp"

#include "ops/gemm/lora/lora.hpp"

namespace dlblas::gemm {

OperatorDef lora_shrink();
OperatorDef lora_shrink() {
  OperatorDef def;
  def.family = "gemm";
  def.schema =
      "lora_shrink(x: f[T, C], a: like(x)[L, R, C], token_lora: index[T] ~ index<L|-1, "
      "y: like(x)|f32[T, R]!, scale: float = 1) -> () where T: bucket(tokens)";
  def.formula = "y[t] += scale · x[t] · W[token_lora[t]]ᵀ where token_lora[t] ≥ 0";
  def.letters = {"T", "C", "L", "R"};
  def.addresses = {"token_lora"};
  kernels::set_row_oracle<lora_shrink_row<kernels::HostRow>>(def);
  def.bound = lora_bound;
  def.work_per_row = lora_work_per_row;
  def.implementations = lora_implementations();
  return def;
}

}  // namespace dlblas::gemm
