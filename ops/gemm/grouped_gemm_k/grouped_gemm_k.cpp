// grouped_gemm_k: schema and oracle; the kernels are shared by all grouped products.
// Read next: grouped_gemm_k_ref.hpp (what it computes), ops/gemm/grouped/grouped.hpp.
#include "ops/gemm/grouped_gemm_k/grouped_gemm_k_ref.hpp"

#include "ops/gemm/grouped/grouped.hpp"

namespace dlblas::gemm {

OperatorDef grouped_gemm_k();
OperatorDef grouped_gemm_k() {
  static constexpr GroupedOp kOp = {"grouped_gemm_k", GroupKind::kDepth, kDepthN,
                                    kDepthK,          kDepthM,           kDepthE};
  OperatorDef def;
  def.family = "gemm";
  def.schema =
      "grouped_gemm_k(a: f[M, N], b: like(a)[M, K], offsets: index[E+1] ~ offsets<=M, *, "
      "out_dtype: dtype(f) = none) -> out: out_dtype|like(a)[E, N, K] where M: bucket(tokens)";
  def.formula = "out[e] = Σ a[m]ᵀ · b[m] over offsets[e] ≤ m < offsets[e + 1]";
  def.letters = {"M", "N", "K", "E"};
  kernels::set_row_oracle<grouped_gemm_k_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) { return grouped_bound(kOp, problem); };
  def.work_per_row = [](const Problem& p) {
    return static_cast<double>(p.dims[kDepthM]) * static_cast<double>(p.dims[kDepthK]);
  };
  def.implementations = grouped_cpu(kOp);
  for (const Implementation& impl : grouped_cuda(kOp)) def.implementations.push_back(impl);
  return def;
}

}  // namespace dlblas::gemm
