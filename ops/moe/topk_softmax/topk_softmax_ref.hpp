// The gates of topk_softmax in f64. Errors, in units of 2^-24, are those of
// ops/norm/softmax/softmax_ref.hpp; the chosen are summed one by one.
// Read next: ops/moe/topk_ref.hpp.
#pragma once

#include "ops/moe/topk_ref.hpp"

namespace dlblas::moe {

class SoftmaxGates {
 public:
  SoftmaxGates(const Args& args, std::int64_t row)
      : logits(kernels::row_values(args.tensors[kTopkLogits], row)),
        renormalize_(args.scalars[kTopkRenormalize].i != 0) {
    double squares = 0, errors = 0;
    for (const double x : logits) max_ = x > max_ || std::isnan(x) ? x : max_;
    for (const double x : logits)
      sum_ += power(x), squares += power(x) * power(x), errors += power(x) * error(x);
    const auto width = static_cast<std::int64_t>(logits.size());
    error_ = 5 + errors / sum_ + std::log2(static_cast<double>(width)) / 2 +
             kernels::sum_roundings(width, sum_, squares);
  }
  double gate(std::int64_t e) const { return power(at(e)) / sum_; }
  double gate_error(std::int64_t e) const { return gate(e) * (error_ + error(at(e))); }
  /// The error of the exponential and the product; the sum is the same for all.
  double own_error(std::int64_t e) const { return gate(e) * (error(at(e)) + 1); }
  /// The weights of these experts, and their errors.
  void weigh(const std::vector<std::int64_t>& ids, double* weights, double* errors) const {
    double sum = 0, mean = 0;
    for (const std::int64_t e : ids) sum += power(at(e)), mean += power(at(e)) * error(at(e));
    const double all = 5 + mean / sum + sum_of_chosen(ids, [&](auto e) { return power(at(e)); });
    for (std::size_t r = 0; r < ids.size(); ++r) {
      const double x = at(ids[r]);
      weights[r] = renormalize_ ? power(x) / sum : gate(ids[r]);
      errors[r] = !renormalize_     ? gate_error(ids[r])
                  : ids.size() == 1 ? 2 * weights[r]  // over itself
                                    : weights[r] * (all + error(x));
    }
  }
  const std::vector<double> logits;

 private:
  double at(std::int64_t e) const { return logits[static_cast<std::size_t>(e)]; }
  double power(double x) const { return std::exp(x - max_); }
  double error(double x) const { return max_ > x ? 4 + 2.25 * std::min(max_ - x, 128.0) : 0; }
  const bool renormalize_;
  double max_ = -std::numeric_limits<double>::infinity(), sum_ = 0, error_ = 0;
};

}  // namespace dlblas::moe
