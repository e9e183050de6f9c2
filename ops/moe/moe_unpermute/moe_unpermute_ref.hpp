// The oracle of moe_unpermute, in f64: y[t] = Σ_j weights[t, j] · rows[inverse[t, j]].
// The error it allows, in units of 2^-24: one rounding of each product, plus one of each partial
// sum or the random walk of so many roundings, if that is less (device/oracle/sum_error.hpp). In
// f32, the last one is the store's. Read next: moe_unpermute.cuh.
#pragma once

#include "ops/common/oracle_text.hpp"

namespace dlblas::moe {

enum UnpermuteTensor : int { kUnpermuteRows, kUnpermuteInverse, kUnpermuteWeights, kUnpermuteY };
enum UnpermuteLetter : int { kUnpermuteR, kUnpermuteC, kUnpermuteT, kUnpermuteK };

template <typename Row>
void moe_unpermute_row(Row& row) {
  const std::int64_t choices = row.size(kUnpermuteK), t = row.index();
  SumModel model = sum_model(choices, false);
  model.alike = 1.5 * static_cast<double>(choices);  // one chain, however long
  row.each(row.size(kUnpermuteC), [&](auto c) {
    SumWalk walk;
    double partial = 0, products = 0;
    bool first = true;
    for (std::int64_t j = 0; j < choices; ++j) {
      const double at = row.load_row(kUnpermuteInverse, t, j);
      if (!(at >= 0 && at < static_cast<double>(row.size(kUnpermuteR)))) continue;
      const double weight = row.load_row(kUnpermuteWeights, t, j);
      const double value = row.load_row(kUnpermuteRows, static_cast<std::int64_t>(at), c);
      walk.add(weight * value);
      products += std::abs(weight * value);
      if (!first) partial += std::abs(walk.sum());
      first = false;
    }
    row.store(0, c, walk.sum(), products + std::min(partial, sum_error(model, walk.sizes())));
  });
}

}  // namespace dlblas::moe
