// The oracle of topk_softmax in f64, and its judge: experts whose gates are equal but for what
// their errors allow may come in any order, where logits are equal from the lower one up. Errors,
// in units of 2^-24, are those of ops/norm/softmax/softmax_ref.hpp; the chosen are summed one by
// one, a rounding each. Read next: registry/operator.hpp (Judgement).
#pragma once

#include "kernels/row_reference.hpp"

namespace dlblas::moe {

enum TopkTensor : int { kTopkLogits, kTopkWeights, kTopkIds };
enum TopkLetter : int { kTopkT, kTopkE, kTopkK };
inline constexpr int kTopkRenormalize = 1;  // scalar

class TopkRow {
 public:
  TopkRow(const Args& args, std::int64_t row)
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
  /// The weights of these experts, and their errors.
  void weigh(const std::vector<std::int64_t>& ids, double* weights, double* errors) const {
    double sum = 0, mean = 0;
    for (const std::int64_t e : ids) sum += power(at(e)), mean += power(at(e)) * error(at(e));
    const double all = 5 + mean / sum + static_cast<double>(ids.size());
    for (std::size_t r = 0; r < ids.size(); ++r) {
      const double x = at(ids[r]);
      weights[r] = renormalize_ ? power(x) / sum : gate(ids[r]);
      errors[r] = renormalize_ ? weights[r] * (all + error(x)) : gate_error(ids[r]);
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

inline void topk_softmax_reference(const Args& args, const std::int64_t* rows,
                                   std::int64_t num_rows, OracleOut* out) {
  const std::int64_t count = args.letters[kTopkK];
  for (std::int64_t i = 0; i < num_rows; ++i) {
    const TopkRow row(args, rows[i]);
    const std::vector<std::int64_t> ids = kernels::largest(row.logits, count);
    row.weigh(ids, out[0].value + i * count, out[0].magnitude + i * count);
    std::copy(ids.begin(), ids.end(), out[1].value + i * count);
    std::copy(ids.begin(), ids.end(), out[1].magnitude + i * count);
  }
}

inline void topk_softmax_judge(const Judgement& j, Finding* found) {
  const std::int64_t count = j.before.letters[kTopkK];
  const Bound& bound = j.bounds[0];
  std::vector<double> want(static_cast<std::size_t>(count)), errors(want.size());
  for (std::int64_t i = 0; i < j.num_rows; ++i) {
    const TopkRow row(j.before, j.rows[i]);
    const auto weights = kernels::row_values(j.after.result(0), j.rows[i]);
    const auto ids = kernels::row_values(j.after.result(1), j.rows[i]);
    const double* best = j.reference[1].value + i * count;
    std::vector<bool> taken(row.logits.size());
    std::vector<std::int64_t> chosen;  // the reference's where what is there is no expert
    for (std::size_t r = 0; r < ids.size(); ++r) {
      const auto id = static_cast<std::int64_t>(ids[r]), at = static_cast<std::int64_t>(best[r]);
      bool right = id >= 0 && id < static_cast<std::int64_t>(taken.size()) &&
                   !taken[static_cast<std::size_t>(id)];
      chosen.push_back(right ? id : at);
      if (right) taken[static_cast<std::size_t>(id)] = true;
      for (std::size_t e = 0; right && static_cast<std::int64_t>(e) < id; ++e)
        right = taken[e] ||
                kernels::larger(row.logits[e], row.logits[static_cast<std::size_t>(id)]) ||
                kernels::larger(row.logits[static_cast<std::size_t>(id)], row.logits[e]);
      if (right && id != at)  // a NaN allows nothing
        right = std::abs(row.gate(id) - row.gate(at)) <=
                bound.magnitude * (row.gate_error(id) + row.gate_error(at)) + 2 * bound.absolute;
      if (!right) found[1].add(j.rows[i] * count + static_cast<std::int64_t>(r));
    }
    row.weigh(chosen, want.data(), errors.data());
    for (std::size_t r = 0; r < weights.size(); ++r) {
      const double allowed =
          bound.magnitude * errors[r] + bound.value * std::abs(want[r]) + bound.absolute;
      const bool nan = std::isnan(want[r]) && std::isnan(weights[r]);
      if (!nan && !(std::abs(weights[r] - want[r]) <= allowed))
        found[0].add(j.rows[i] * count + static_cast<std::int64_t>(r));
    }
  }
}

}  // namespace dlblas::moe
