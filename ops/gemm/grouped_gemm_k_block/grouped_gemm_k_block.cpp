// grouped_gemm_k_block: schema and oracle; the kernels are shared by all block-scaled grouped
// products. Read next: grouped_gemm_k_block_ref.hpp, ops/gemm/grouped_block/grouped_block.hpp.
#include "ops/gemm/grouped_gemm_k_block/grouped_gemm_k_block_ref.hpp"

#include "ops/gemm/grouped_block/grouped_block.hpp"

namespace dlblas::gemm {

OperatorDef grouped_gemm_k_block();
OperatorDef grouped_gemm_k_block() {
  static constexpr GroupedOp kOp = {"grouped_gemm_k_block", GroupKind::kDepth, kDepthBlockN,
                                    kDepthBlockK,           kDepthBlockM,      kDepthBlockE,
                                    kGroupedBlockResult};
  OperatorDef def;
  def.family = "gemm";
  def.schema =
      "grouped_gemm_k_block(a: f8[M, N], b: like(a)[M, K], offsets: index[E+1] ~ offsets<=M, "
      "a_scale: f32[M/128, N] ~ positive, b_scale: f32[M/128, K] ~ positive, *, "
      "out_dtype: dtype(f) = none) -> out: out_dtype|bf16[E, N, K] where M: bucket(tokens)";
  def.formula =
      "out[e] = Σ over 128 of M of (a_scale · b_scale) · Σ a[m]ᵀ · b[m] over offsets[e] ≤ m < "
      "offsets[e + 1]";
  def.letters = {"M", "N", "K", "E"};
  kernels::set_row_oracle<grouped_gemm_k_block_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) { return grouped_block_bound(kOp, problem); };
  def.work_per_row = [](const Problem& p) {
    return static_cast<double>(p.dims[kOp.k]) * static_cast<double>(p.dims[kOp.n]);
  };
  def.implementations = grouped_block_cpu(kOp);
  def.implementations.push_back(grouped_depth_wgmma(kOp));
  def.implementations.push_back(grouped_block_cuda(kOp));
  return def;
}

}  // namespace dlblas::gemm
