// grouped_gemm_gathered: schema and oracle; the kernels are shared by all grouped products.
// Read next: grouped_gemm_gathered_ref.hpp (what it computes), ops/gemm/grouped/grouped.hpp.
#include "ops/gemm/grouped_gemm_gathered/grouped_gemm_gathered_ref.hpp"

#include "ops/gemm/grouped/grouped.hpp"

namespace dlblas::gemm {

OperatorDef grouped_gemm_gathered();
OperatorDef grouped_gemm_gathered() {
  static constexpr GroupedOp kOp = {.name = "grouped_gemm_gathered",
                                    .kind = GroupKind::kRows,
                                    .m = kGatheredM,
                                    .n = kGatheredN,
                                    .k = kGatheredK,
                                    .groups = kGatheredE,
                                    .out = kGatheredRows + 1,
                                    .rows = kGatheredRows,
                                    .sources = kGatheredT};
  OperatorDef def;
  def.family = "gemm";
  def.schema =
      "grouped_gemm_gathered(a: f[T, K], weight: like(a)[E, N, K], offsets: index[E+1] ~ "
      "offsets<=M, rows: index[M] ~ index<T|-1, *, out_dtype: dtype(f) = none) -> out: "
      "out_dtype|like(a)[M, N] where T: bucket(tokens), M: bucket(tokens)";
  def.formula = "out[m] = a[rows[m]] · weight[e]ᵀ for offsets[e] ≤ m < offsets[e + 1]";
  def.letters = {"T", "K", "E", "N", "M"};
  def.addresses = {"rows"};
  kernels::set_row_oracle<grouped_gemm_gathered_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) { return grouped_bound(kOp, problem); };
  def.work_per_row = [](const Problem& p) {
    return static_cast<double>(p.dims[kGatheredK]) * static_cast<double>(p.dims[kGatheredN]);
  };
  def.implementations = grouped_cpu(kOp);
  for (const Implementation& impl : grouped_cuda(kOp)) def.implementations.push_back(impl);
  return def;
}

}  // namespace dlblas::gemm
