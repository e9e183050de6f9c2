// batched_matmul: schema; oracle and implementations are shared by all batched products.
// Read next: ops/gemm/batched/batched.hpp.
#include "ops/gemm/batched/batched.hpp"

namespace dlblas::gemm {

OperatorDef batched_matmul();
OperatorDef batched_matmul() {
  OperatorDef def;
  def.schema =
      "batched_matmul(a: f[B, M, K], b: like(a)[B, K, N], "
      "activation: \"\"|\"relu\"|\"leaky_relu\"|\"gelu\"|\"silu\" = \"\", *, "
      "bias: like(a)|f32[N]?, out_dtype: dtype(f) = none) "
      "-> out: out_dtype|like(a)[B, M, N] where M: bucket(tokens), B: bucket(tokens)";
  def.formula = "out[b] = act(a[b] · b[b] + bias)";
  add_batched<false>(def);
  return def;
}

}  // namespace dlblas::gemm
