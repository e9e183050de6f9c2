// The oracle of gated_linear_quant_group: y = silu(x · Wgᵀ) ⊙ (x · Wuᵀ) as in gated_linear, never
// rounded, then its codes and scales as ops/common/quant_ref.hpp defines them for computed values.
// Read next: ops/mlp/gate_ref.hpp, ops/common/quant_ref.hpp, gated_linear_quant_group.cpp.
#pragma once

#include "ops/common/quant_ref.hpp"
#include "ops/mlp/gated_linear/gated_linear_ref.hpp"

namespace dlblas::mlp {

enum GatedCodesTensor : int { kCodesQ = 3, kCodesScale };
inline constexpr std::int64_t kCodesGroup = 128;

template <typename Row>
void gated_linear_quant_group_row(Row& row) {
  const auto x = [&](auto k) { return row.load(kX, k); };
  const auto dot = [&](int weight, auto c) {
    return dot_of(row, row.dtype(kX), row.size(kK), x, weight, c);
  };
  const auto value = [&](auto c) {
    const OffSum y = gated_of(row.size(kK), Gate::kSilu, dot(kGate, c), dot(kUp, c));
    const double off = kRounding * (y.off + std::abs(y.sum)) + 0x1p-149;
    const bool over = std::isinf(round_to(DType::kF32, y.sum));
    return quant::MadeValue{over ? std::copysign(infinity(), y.sum) : y.sum, off};
  };
  for (std::int64_t begin = 0, at = 0; begin < row.size(kF); begin += kCodesGroup, ++at)
    quant::store_made_codes(row, begin, std::min(begin + kCodesGroup, row.size(kF)), at, value);
}

}  // namespace dlblas::mlp
