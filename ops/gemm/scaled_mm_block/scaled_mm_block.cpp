// scaled_mm_block: schema; oracle and implementations are shared by all scaled products.
// Read next: ops/gemm/scaled/scaled_ref.hpp (what it computes), scaled_mma.cuh, scaled_cpu.cpp.
#include "ops/gemm/scaled/scaled.hpp"

namespace dlblas::gemm {

OperatorDef scaled_mm_block();
OperatorDef scaled_mm_block() {
  OperatorDef def;
  def.schema =
      "scaled_mm_block(a: f8e4m3|i8[*M, K], b: like(a)[K, N], a_scale: f32[*M, K/128] ~ positive, "
      "b_scale: f32[K/128, N/128] ~ positive, *, bias: f[N]?, out_dtype: dtype(f) = none) "
      "-> out: out_dtype|bf16[*M, N] where M: bucket(tokens)";
  def.formula = "out = Σ over 128 of K of (a_scale · b_scale) · (a · b) + bias";
  scaled::define(def, scaled::Scales::kBlock);
  return def;
}

}  // namespace dlblas::gemm
