// Shared by the oracles of capacity gating: the softmax of a row in f64, and the error f32 kernels
// may have, in units of 2^-24. An element's e^(x − max) has an error of 4 + 2.25·(max − x) units
// (ops/norm/softmax/softmax_ref.hpp); the quotient adds two roundings, the sum those of its terms.
// Read next: ops/moe/topk_gating_slots/topk_gating_slots_ref.hpp.
#pragma once

#include "ops/common/oracle_text.hpp"

namespace dlblas::moe {

/// Of a row: its largest logit, the sum of its powers, and the error that all of its gates share.
struct GateSums {
  double most, sum, common;

  double power(double x) const { return std::exp(x - most); }
  double gate(double x) const { return power(x) / sum; }
  /// The relative error of a gate: its own, and together with the one that the row shares.
  double own_error(double x) const { return most > x ? 4 + 2.25 * std::min(most - x, 128.0) : 0; }
  double gate_error(double x) const { return common + own_error(x); }
};
template <typename Row>
GateSums gate_sums(const Row& row, int logits, std::int64_t experts) {
  GateSums gates{row.max(experts, [&](auto e) { return row.load(logits, e); }), 0, 0};
  const auto sums = row.template sums<3>(experts, [&](auto e, double* terms) {
    const double x = row.load(logits, e), p = gates.power(x);
    terms[0] = p, terms[1] = p * p, terms[2] = p * gates.own_error(x);
  });
  gates.sum = sums.of[0];
  gates.common =
      2 + sums.of[2] / gates.sum + kernels::sum_roundings(experts, gates.sum, sums.of[1]);
  return gates;
}

/// The smallest value that gates are divided by.
inline double least_sum(DType result) { return float_traits(result).eps; }

}  // namespace dlblas::moe
