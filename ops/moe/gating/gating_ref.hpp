// What the oracles of capacity gating share: the softmax of a row in f64, and how far f32 kernels
// may be off, in units of 2^-24. An element's e^(x − max) is off by 4 units and 2.25 for each of
// max − x (ops/norm/softmax/softmax_ref.hpp); the quotient adds two roundings, the sum those of its
// terms. Read next: ops/moe/topk_gating_slots/topk_gating_slots_ref.hpp.
#pragma once

#include <cmath>
#include <vector>

#include "kernels/row_reference.hpp"

namespace dlblas::moe {

class GateRow {
 public:
  GateRow(const TensorView& logits_of, std::int64_t row)
      : logits(kernels::row_values(logits_of, row)) {
    double squares = 0, errors = 0;
    for (const double x : logits) most_ = x > most_ || std::isnan(x) ? x : most_;
    for (const double x : logits) {
      const double p = power(x);
      sum_ += p, squares += p * p, errors += p * error(x);
    }
    common_ = 2 + errors / sum_ +
              kernels::sum_roundings(static_cast<std::int64_t>(logits.size()), sum_, squares);
  }
  double gate(std::int64_t e) const { return power(at(e)) / sum_; }
  bool is_most(std::int64_t e) const { return at(e) == most_; }
  /// Of the gate, relative: what is its own, and with what all of a row have.
  double own_error(std::int64_t e) const { return error(at(e)); }
  double gate_error(std::int64_t e) const { return common_ + own_error(e); }
  const std::vector<double> logits;

 private:
  double at(std::int64_t e) const { return logits[static_cast<std::size_t>(e)]; }
  double power(double x) const { return std::exp(x - most_); }
  double error(double x) const { return most_ > x ? 4 + 2.25 * std::min(most_ - x, 128.0) : 0; }
  double most_ = -std::numeric_limits<double>::infinity(), sum_ = 0, common_ = 0;
};

/// The least that gates are divided by.
inline double least_sum(DType result) { return float_traits(result).eps; }

}  // namespace dlblas::moe
