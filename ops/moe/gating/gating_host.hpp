// Shared on the host by the two operators of capacity gating: a CPU's instruction-set levels, a
// row's softmax there, and the traits of CUDA kernels.
// Read next: gating_host.cpp, ops/moe/topk_gating_slots/, ops/moe/topk_gating_backward/.
#pragma once

#include <vector>

#include "core/implementation.hpp"
#include "ops/moe/gating/gating_config.hpp"

namespace dlblas::moe {

/// One implementation per level, `cpu_avx512` and so on; `base` is what they share.
std::vector<Implementation> gate_levels(const Implementation& base);
/// The passes of the queried implementation's level.
MoeGatePasses gate_passes(const Query& q);
/// Row `row` of logits in f32, and its softmax; `gathered` has room for a row.
void softmax_of(const MoeGatePasses& passes, const TensorView& logits, std::int64_t row, float* x,
                float* gates, float* gathered);

/// The traits of kernels over such logits; results count as aligned.
MoeGateTraits gate_traits(const TensorTraits& logits, DType result, std::int64_t experts);
const TraitsTable<MoeGateTraits>& gate_traits_table();

}  // namespace dlblas::moe
