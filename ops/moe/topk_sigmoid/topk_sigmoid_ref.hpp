// The gates of topk_sigmoid in f64. The error they allow, in units of 2^-24: for e^−d, with d =
// shift − min(x, 0), nothing at d = 0, else 4 + 2.25·d (ops/norm/softmax/softmax_ref.hpp); 6 for 1
// + e^−|x|, 2 for its reciprocal, 1 for the product. The chosen are summed one by one; their sum's
// reciprocal, the product and second-order terms add 4. Read next: ops/moe/topk_ref.hpp.
#pragma once

#include "ops/moe/topk_ref.hpp"

namespace dlblas::moe {

class SigmoidGates {
 public:
  SigmoidGates(const Args& args, std::int64_t row)
      : logits(kernels::row_values(args.tensors[kTopkLogits], row)),
        renormalize_(args.scalars[kTopkRenormalize].i != 0) {}
  double gate(std::int64_t e) const { return scaled(at(e), 0); }
  double own_error(std::int64_t e) const { return gate(e) * error(at(e), 0); }
  /// The weights of these experts, and their errors.
  void weigh(const std::vector<std::int64_t>& ids, double* weights, double* errors) const {
    double shift = renormalize_ ? -std::numeric_limits<double>::infinity() : 0;
    for (const std::int64_t e : ids) {
      const double x = std::min(at(e), 0.0);
      if (renormalize_ && (x > shift || std::isnan(at(e)))) shift = std::isnan(at(e)) ? at(e) : x;
    }
    double sum = 0, mean = 0;
    for (const std::int64_t e : ids) {
      const double power = scaled(at(e), shift);
      sum += power, mean += power * error(at(e), shift);
    }
    const double all =
        mean / sum + 4 + sum_of_chosen(ids, [&](auto e) { return scaled(at(e), shift); });
    for (std::size_t r = 0; r < ids.size(); ++r) {
      const double x = at(ids[r]), power = scaled(x, shift);
      weights[r] = renormalize_ ? power / sum : power;
      errors[r] = renormalize_ && ids.size() == 1  // over itself
                      ? 4 * weights[r]
                      : weights[r] * (error(x, shift) + (renormalize_ ? all : 0));
    }
  }
  const std::vector<double> logits;

 private:
  double at(std::int64_t e) const { return logits[static_cast<std::size_t>(e)]; }
  /// σ(x)·e^−shift.
  static double scaled(double x, double shift) {
    const double below = x < 0 || std::isnan(x) ? x : 0;
    return std::exp(below - shift) / (1 + std::exp(-std::abs(x)));
  }
  static double error(double x, double shift) {
    const double d = shift - std::min(x, 0.0);
    return 9 + (d > 0 ? 4 + 2.25 * std::min(d, 128.0) : 0);
  }
  const bool renormalize_;
};

}  // namespace dlblas::moe
