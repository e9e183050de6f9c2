// The oracle of lora_shrink and lora_expand, which differ only in names:
// y[t, n] += scale · Σ_k x[t, k] · weight[l, n, k] where token t has adapter l; the rows of other
// tokens are unchanged. Allowed error, in f32 roundings: the sum's, times scale, plus those of the
// product with scale and of the final addition. Read next: device/oracle/sum_error.hpp,
// ops/common/oracle_text.hpp.
#pragma once

#include "ops/common/oracle_text.hpp"

namespace dlblas::gemm {

enum LoraTensor : int { kLoraX, kLoraWeight, kLoraAdapter, kLoraY };
enum LoraLetter : int { kLoraT, kLoraK, kLoraL, kLoraN };  // in lora_shrink K is C and N is R

template <typename Row>
void lora_row(Row& row) {
  const int64_t width = row.size(kLoraN), depth = row.size(kLoraK);
  const double adapter = row.load_column(kLoraAdapter, row.index()), scale = row.scalar(0);
  const bool has = adapter >= 0 && adapter < static_cast<double>(row.size(kLoraL));
  const int64_t first = has ? static_cast<int64_t>(adapter) * width : 0;
  const SumModel model = sum_model(depth, false);
  row.each(width, [&](auto n) {
    const double before = row.load(kLoraY, n);
    if (!has) {
      row.store(0, n, before, 0);
      return;
    }
    SumWalk walk;
    for (int64_t k = 0; k < depth; ++k)
      walk.add(row.load(kLoraX, k) * row.load_row(kLoraWeight, first + n, k));
    const double added = scale * walk.sum();
    row.store(0, n, before + added,
              std::abs(scale) * (sum_error(model, walk.sizes()) + 2 * std::abs(walk.sum())) +
                  std::abs(added) + std::abs(before + added));
  });
}

}  // namespace dlblas::gemm
