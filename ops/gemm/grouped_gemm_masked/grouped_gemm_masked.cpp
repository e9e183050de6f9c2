// grouped_gemm_masked: schema and oracle; the kernels are shared by all grouped products.
// Read next: grouped_gemm_masked_ref.hpp (what it computes), ops/gemm/grouped/grouped.hpp.
#include "ops/gemm/grouped_gemm_masked/grouped_gemm_masked_ref.hpp"

#include "ops/gemm/grouped/grouped.hpp"

namespace dlblas::gemm {

OperatorDef grouped_gemm_masked();
OperatorDef grouped_gemm_masked() {
  static constexpr GroupedOp kOp = {
      "grouped_gemm_masked", GroupKind::kMasked, kMaskedM, kMaskedN, kMaskedK, kMaskedE};
  OperatorDef def;
  def.family = "gemm";
  def.schema =
      "grouped_gemm_masked(a: f[E, M, K], weight: like(a)[E, N, K], masked_m: index[E] ~ "
      "index<=M, *, out_dtype: dtype(f) = none) -> out: out_dtype|like(a)[E, M, N]";
  def.formula = "out[e, m] = a[e, m] · weight[e]ᵀ for m < masked_m[e]";
  def.letters = {"E", "M", "K", "N"};
  def.addresses = {"masked_m"};
  kernels::set_row_oracle<grouped_gemm_masked_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) { return grouped_bound(kOp, problem); };
  def.work_per_row = [](const Problem& p) {
    return static_cast<double>(p.dims[kMaskedK]) * static_cast<double>(p.dims[kMaskedN]);
  };
  def.implementations = grouped_cpu(kOp);
  for (const Implementation& impl : grouped_cuda(kOp)) def.implementations.push_back(impl);
  return def;
}

}  // namespace dlblas::gemm
