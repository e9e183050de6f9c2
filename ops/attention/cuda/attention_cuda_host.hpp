// What the host sides of attention's CUDA kernels share. Read next: attention_cuda.cpp,
// attention_gradient_cuda.cpp.
#pragma once

#include "core/rates.hpp"
#include "kernels/cuda_form.hpp"
#include "ops/attention/attention_host.hpp"
#include "ops/attention/cuda/attention_cuda_config.hpp"

namespace dlblas::attention {

inline bool aligned_to_elements(const TensorTraits& t) {
  return (1 << t.align_log2) >= size_of(t.dtype);
}
/// Whether elements of the last dimension lie side by side.
bool has_rows(const TensorTraits& t);
Reach reach_of(const TensorTraits& t, std::int64_t width);
inline Reach farther(Reach a, Reach b) { return a < b ? b : a; }
inline std::int32_t rounded_up(std::int64_t n, std::int64_t step) {
  return static_cast<std::int32_t>(std::max<std::int64_t>(1, (n + step - 1) / step) * step);
}

/// Traits of q, k, v, o and the bias.
AttentionTraits traits_of(const Problem& problem, const AttentionOp& op);
const TraitsTable<AttentionTraits>& members_of_traits();
/// All parameters but `pack` and `tiles`.
AttentionParams tensors_of(const AttentionOp& op, const Args& args);
/// Checks the sizes that kernels count in 32 bits, the number of blocks in the grid, and that
/// tables have D columns.
Support supports_sizes(const Query& q, const AttentionOp& op);
/// Milliseconds of `products` operations per query, key and column, and of `passes` passes over the
/// rows' bytes.
double attention_ms(const Query& q, const AttentionOp& op, double products, double passes);
/// Estimate of the fastest of cuda_wgmma, cuda_mma and cuda_rows that serves, without rotations.
double attention_alone_ms(const Query& q);
/// Sets the tile order that attention_cuda.cpp found fastest; `may_share`: a block walks many
/// tiles.
void walk_together(AttentionParams& p, int size, bool packed, std::int64_t units, bool may_share);

}  // namespace dlblas::attention
