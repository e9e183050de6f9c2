// grouped_gemm_rows: schema and oracle; the kernels are shared by all grouped products.
// Read next: grouped_gemm_rows_ref.hpp (what it computes), ops/gemm/grouped/grouped.hpp.
#include "ops/gemm/grouped_gemm_rows/grouped_gemm_rows_ref.hpp"

#include "ops/gemm/grouped/grouped.hpp"

namespace dlblas::gemm {

OperatorDef grouped_gemm_rows();
OperatorDef grouped_gemm_rows() {
  static constexpr GroupedOp kOp = {
      "grouped_gemm_rows", GroupKind::kRows, kRowsM, kRowsN, kRowsK, kRowsE};
  OperatorDef def;
  def.family = "gemm";
  def.schema =
      "grouped_gemm_rows(a: f[M, K], weight: like(a)[E, N, K], offsets: index[E+1] ~ offsets<=M, "
      "*, out_dtype: dtype(f) = none) -> out: out_dtype|like(a)[M, N] where M: bucket(tokens)";
  def.formula = "out[m] = a[m] · weight[e]ᵀ for offsets[e] ≤ m < offsets[e + 1]";
  def.letters = {"M", "K", "E", "N"};
  kernels::set_row_oracle<grouped_gemm_rows_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) { return grouped_bound(kOp, problem); };
  def.work_per_row = [](const Problem& p) {
    return static_cast<double>(p.dims[kRowsK]) * static_cast<double>(p.dims[kRowsN]);
  };
  def.implementations = grouped_cpu(kOp);
  for (const Implementation& impl : grouped_cuda(kOp)) def.implementations.push_back(impl);
  return def;
}

}  // namespace dlblas::gemm
