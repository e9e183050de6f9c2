// Shared by the oracles of routers: the reference and the judge of the topk largest experts, over
// the gates of a row that each room defines: `logits`, gate(e), own_error(e), which excludes the
// error that all gates share, and weigh(ids, weights, errors). Experts whose gates are equal within
// these errors may come in any order; those with equal logits come from the lower index up. Read
// next: registry/operator.hpp (Judgement), topk_softmax/topk_softmax_ref.hpp.
#pragma once

#include "kernels/row_reference.hpp"

namespace dlblas::moe {

enum TopkTensor : int { kTopkLogits, kTopkWeights, kTopkIds };
enum TopkLetter : int { kTopkT, kTopkE, kTopkK };
inline constexpr int kTopkRenormalize = 1;  // scalar

/// The relative error, in roundings, of the sum of these gates, added one after the other: as
/// kernels::sum_roundings for one chain. A single gate rounds nothing.
template <typename Power>
double sum_of_chosen(const std::vector<std::int64_t>& ids, const Power& power) {
  const auto n = static_cast<double>(ids.size());
  double sum = 0, squares = 0;
  for (const std::int64_t e : ids) sum += power(e), squares += power(e) * power(e);
  const double q = squares > 0 ? sum / n * (sum / squares) : 0, q3 = q * q * q;
  return std::min(n - 1, 1.44 * std::sqrt(n) + n / 4 * q3 * q3);
}

template <typename Gates>
void topk_reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                    OracleOut* out) {
  const std::int64_t count = args.letters[kTopkK];
  for (std::int64_t i = 0; i < num_rows; ++i) {
    const Gates row(args, rows[i]);
    const std::vector<std::int64_t> ids = kernels::largest(row.logits, count);
    row.weigh(ids, out[0].value + i * count, out[0].magnitude + i * count);
    std::copy(ids.begin(), ids.end(), out[1].value + i * count);
    std::copy(ids.begin(), ids.end(), out[1].magnitude + i * count);
  }
}

template <typename Gates>
void topk_judge(const Judgement& j, Finding* found) {
  const std::int64_t count = j.before.letters[kTopkK];
  const Bound& bound = j.bounds[0];
  std::vector<double> want(static_cast<std::size_t>(count)), errors(want.size());
  for (std::int64_t i = 0; i < j.num_rows; ++i) {
    const Gates row(j.before, j.rows[i]);
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
                bound.magnitude * (row.own_error(id) + row.own_error(at)) + 2 * bound.absolute;
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
