// scaled_mm_channel: schema; oracle and implementations are shared by all scaled products.
// Read next: ops/gemm/scaled/scaled_ref.hpp (what it computes), scaled_mma.cuh, scaled_cpu.cpp.
#include "ops/gemm/scaled/scaled.hpp"

namespace dlblas::gemm {

OperatorDef scaled_mm_channel();
OperatorDef scaled_mm_channel() {
  OperatorDef def;
  def.schema =
      "scaled_mm_channel(a: f8e4m3|i8[*M, K], b: like(a)[K, N], a_scale: f32[*M, 1] ~ positive, "
      "b_scale: f32[1|N] ~ positive, *, bias: f[N]?, out_dtype: dtype(f) = none) "
      "-> out: out_dtype|bf16[*M, N] where M: bucket(tokens)";
  def.formula = "out = (a_scale · b_scale) · (a · b) + bias";
  scaled::define(def, scaled::Scales::kChannel);
  return def;
}

}  // namespace dlblas::gemm
