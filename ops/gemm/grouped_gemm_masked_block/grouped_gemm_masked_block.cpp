// grouped_gemm_masked_block: schema and oracle; the kernels are shared by all block-scaled
// grouped products. Read next: grouped_gemm_masked_block_ref.hpp,
// ops/gemm/grouped_block/grouped_block.hpp.
#include "ops/gemm/grouped_gemm_masked_block/grouped_gemm_masked_block_ref.hpp"

#include "ops/gemm/grouped_block/grouped_block.hpp"

namespace dlblas::gemm {

OperatorDef grouped_gemm_masked_block();
OperatorDef grouped_gemm_masked_block() {
  static constexpr GroupedOp kOp = {"grouped_gemm_masked_block",
                                    GroupKind::kMasked,
                                    kMaskedBlockM,
                                    kMaskedBlockN,
                                    kMaskedBlockK,
                                    kMaskedBlockE,
                                    kGroupedBlockResult};
  OperatorDef def;
  def.family = "gemm";
  def.schema =
      "grouped_gemm_masked_block(a: f8[E, M, K], weight: like(a)[E, N, K], masked_m: index[E] ~ "
      "index<=M, a_scale: f32[E, M, K/128] ~ positive, weight_scale: f32[E, N/128, K/128] ~ "
      "positive, *, out_dtype: dtype(f) = none) -> out: out_dtype|bf16[E, M, N]";
  def.formula = "out[e, m] = Σ over 128 of K of (a_scale · weight_scale) · (a[e, m] · weight[e]ᵀ)";
  def.letters = {"E", "M", "K", "N"};
  def.addresses = {"masked_m"};
  kernels::set_row_oracle<grouped_gemm_masked_block_row<kernels::HostRow>>(def);
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
