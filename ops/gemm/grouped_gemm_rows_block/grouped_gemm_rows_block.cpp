// grouped_gemm_rows_block: schema and oracle; the kernels are shared by all block-scaled
// grouped products. Read next: grouped_gemm_rows_block_ref.hpp,
// ops/gemm/grouped_block/grouped_block.hpp.
#include "ops/gemm/grouped_gemm_rows_block/grouped_gemm_rows_block_ref.hpp"

#include "ops/gemm/grouped_block/grouped_block.hpp"

namespace dlblas::gemm {

OperatorDef grouped_gemm_rows_block();
OperatorDef grouped_gemm_rows_block() {
  static constexpr GroupedOp kOp = {"grouped_gemm_rows_block",
                                    GroupKind::kRows,
                                    kRowsBlockM,
                                    kRowsBlockN,
                                    kRowsBlockK,
                                    kRowsBlockE,
                                    kGroupedBlockResult};
  OperatorDef def;
  def.family = "gemm";
  def.schema =
      "grouped_gemm_rows_block(a: f8[M, K], weight: like(a)[E, N, K], "
      "offsets: index[E+1] ~ offsets<=M, a_scale: f32[M, K/128] ~ positive, weight_scale: f32[E, "
      "N/128, K/128] ~ positive, *, out_dtype: dtype(f) = none) -> out: out_dtype|bf16[M, N] "
      "where M: bucket(tokens)";
  def.formula = "out[m] = Σ over 128 of K of (a_scale · weight_scale) · (a[m] · weight[e]ᵀ)";
  def.letters = {"M", "K", "E", "N"};
  kernels::set_row_oracle<grouped_gemm_rows_block_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) { return grouped_block_bound(kOp, problem); };
  def.work_per_row = [](const Problem& p) {
    return static_cast<double>(p.dims[kOp.k]) * static_cast<double>(p.dims[kOp.n]);
  };
  def.implementations = grouped_block_cpu(kOp);
  def.implementations.push_back(grouped_block_wgmma(kOp));
  def.implementations.push_back(grouped_block_cuda(kOp));
  return def;
}

}  // namespace dlblas::gemm
