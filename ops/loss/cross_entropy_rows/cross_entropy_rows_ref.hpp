// The oracle of cross_entropy_rows, in f64: lse = log Σ e^x; loss = (1 − ε)·w_t·(lse − x_t) +
// ε/C·(Σw·lse − Σ w·x), 0 where the target is ignore_index, NaN where there is no such class.
// Error bounds, in units u = 2^-24. max and log Σ e^(x − max): ops/common/softmax_sum.hpp, and at
// most the largest error of a capped logit. max − x_t: one rounding; its sum with the logarithm:
// one; the products: three. Σ w·x: the error of the sum, and one per term; the smoothing part: four
// more. Read next: ops/loss/cross_entropy_ref.hpp, cross_entropy_rows_program.hpp.
#pragma once

#include "ops/loss/cross_entropy_ref.hpp"

namespace dlblas::loss {

enum CrossEntropyTensor : int { kCrossLogits, kCrossTarget, kCrossWeight, kCrossWeightSum };

template <typename Row>
void cross_entropy_rows_row(Row& row) {
  const CrossEntropyRow<Row> of{row, kCrossLogits, kCrossTarget, kCrossWeight, kCrossWeightSum};
  const auto width = of.width();
  const auto x = [&](auto c) { return of.x(c); };
  const norm::SoftmaxSum sum = norm::softmax_sum(row, width, x);
  const double caps = row.max(width, [&](auto c) { return of.x_off(c); });
  const bool empty = sum.most == -infinity();  // no finite logit
  const double lse = empty ? sum.most : sum.most + sum.log();
  const double lse_off = sum.log_off() + caps + std::abs(lse);
  double loss = 0, off = 0;
  if (!of.ignored()) {
    const bool there = of.there();
    const auto t = there ? of.target() : 0;
    const double below = sum.most - of.x(t), first = (1 - of.smoothing()) * of.weight(t);
    loss = first * (below + sum.log());
    off = std::abs(first) * (sum.log_off() + caps + of.x_off(t) + std::abs(below)) +
          4 * std::abs(loss);
    if (of.smoothing() != 0) {
      const kernels::RowWalk walk = row.walk(width, [&](auto c) { return of.weight(c) * of.x(c); });
      const double offs = row.sum(width, [&](auto c) {
        return std::abs(of.weight(c)) * (of.x_off(c) + std::abs(of.x(c)));
      });
      const double share = of.share(), all = of.weight_sum() * lse;
      loss += share * (all - walk.sum());
      off += share * (std::abs(of.weight_sum()) * lse_off + walk.roundings() + offs +
                      4 * (std::abs(all) + std::abs(walk.sum()))) +
             std::abs(loss);
      if (walk.overflows()) off = -1;
    }
    if (empty || !there) loss = not_a_number();
  }
  row.store(0, 0, loss, off);
  row.store(1, 0, lse, std::isinf(lse) ? 0 : lse_off);
}

}  // namespace dlblas::loss
