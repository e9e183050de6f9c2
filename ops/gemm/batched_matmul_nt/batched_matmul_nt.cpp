// batched_matmul_nt: schema; oracle and implementations are shared by all batched products.
// Read next: ops/gemm/batched/batched.hpp.
#include "ops/gemm/batched/batched.hpp"

namespace dlblas::gemm {

OperatorDef batched_matmul_nt();
OperatorDef batched_matmul_nt() {
  OperatorDef def;
  def.schema =
      "batched_matmul_nt(a: f[B, M, K], b: like(a)[B, N, K], "
      "activation: \"\"|\"relu\"|\"leaky_relu\"|\"gelu\"|\"silu\" = \"\", *, "
      "bias: like(a)|f32[N]?, out_dtype: dtype(f) = none) "
      "-> out: out_dtype|like(a)[B, M, N] where M: bucket(tokens), B: bucket(tokens)";
  def.formula = "out[b] = act(a[b] · b[b]ᵀ + bias)";
  add_batched<true>(def);
  return def;
}

}  // namespace dlblas::gemm
