// The oracle of merge_attention_states, in f64: w = e^(lse − most) of both states, o = Σ w·o / Σ w,
// lse = most + log Σ w.
// Error bounds, in units u = 2^-24, with d = most − lse. A weight: 0 at d = 0, else 4 + 2.25·d
// (ops/norm/softmax/softmax_ref.hpp). The sum: the weighted mean of these errors and one rounding;
// its reciprocal 2, the quotient and the products one each, the final sum at most one of each of
// its terms; second order 2. A logarithm near 1 is accurate to 6 u, absolute. Weights below 2^-126
// are 0, and their states contribute nothing. A row of lse is a row of its last dimension.
// Read next: ops/common/oracle_text.hpp, merge_attention_states_program.hpp.
#pragma once

#include "ops/common/oracle_text.hpp"

namespace dlblas::attention {

enum MergeTensor : int { kMergeO1, kMergeLse1, kMergeO2, kMergeLse2 };
enum MergeLetter : int { kMergeT, kMergeD };

struct MergedStates {
  double most, weights[2], errors[2], sum, mean;  // errors: relative to the weight
  MergedStates(double lse1, double lse2) {
    most = lse1 > lse2 || std::isnan(lse1) ? lse1 : lse2;
    const double base = most == -infinity() ? 0 : most;
    const double both[] = {lse1, lse2};
    sum = mean = 0;
    for (int i = 0; i < 2; ++i) {
      const double distance = base - both[i], e = std::exp(-distance);
      weights[i] = e < 0x1p-126 ? 0 : e;
      errors[i] = distance > 0 ? 4 + 2.25 * std::min(distance, 128.0) : 0;
      sum += weights[i], mean += weights[i] * errors[i];
    }
    mean = sum == 0 ? 0 : mean / sum;
  }
  double lse() const { return sum == 0 ? most : most + std::log2(sum) * 0.6931471805599453; }
};

template <typename Row>
void merge_attention_states_row(Row& row) {
  const std::int64_t states = row.size(kMergeT), across = row.width(kMergeLse1);
  const auto merged = [&](auto i) {
    return MergedStates(row.load_row(kMergeLse1, i / across, i % across),
                        row.load_row(kMergeLse2, i / across, i % across));
  };
  if (row.index() < states) {
    const MergedStates m = merged(row.index());
    row.each(row.size(kMergeD), [&](auto c) {
      const double o[] = {row.load(kMergeO1, c), row.load(kMergeO2, c)};
      double value = 0, magnitude = 0;
      for (int i = 0; i < 2; ++i) {
        if (m.weights[i] == 0) continue;
        const double term = m.weights[i] / m.sum * o[i];
        value += term, magnitude += std::abs(term) * (m.errors[i] + m.mean + 9);
      }
      row.store(0, c, value, magnitude);
    });
  }
  if (across == 0 || row.index() >= states / across) return;
  row.each(across, [&](auto j) {
    const MergedStates m = merged(row.index() * across + j);
    const double lse = m.lse();
    row.store(1, j, lse, std::isinf(lse) ? 0 : m.mean + 8 + std::abs(lse));
  });
}

}  // namespace dlblas::attention
