// The oracle of topk_gating_backward, in f64. With g = softmax(logits), D the sum of a token's kept
// gates and D' = max(D, eps): an expert's gate gets a = dl_aux · E · first_choices / T², that of a
// kept choice besides s = dw / D' − [D ≥ eps] · Σ dw · g / D'², and dlogits = g · (a + s − Σ_e g ·
// (a + s)). With w = g / D' this is g · (a − Σ g · a) + w · (dw − Σ w · dw) where D ≥ eps, and
// g · (a − Σ g · a − Σ w · dw) + w · dw elsewhere: what is computed here and in kernels.
// The error it allows, in units of 2^-24: what gates, sums and quotients are off by, each on the
// sizes of its terms. Of n roundings that know nothing of each other, most of them smaller than
// they may be, 1.5·√n count; those of many equal gates agree, and more do. A token whose D is as
// near to eps as its error is undefined: either side is right. Read next:
// ops/moe/gating/gating_ref.hpp, ops/moe/gating/gating.cuh.
#pragma once

#include "ops/moe/gating/gating_ref.hpp"

namespace dlblas::moe {

enum GateGradTensor : int {
  kGateGradAux,
  kGateGradWeights,
  kGateGradLogits,
  kGateGradKept,
  kGateGradFirst,
  kGateGradOut
};
enum GateGradLetter : int { kGateGradK, kGateGradT, kGateGradE };

/// A token's choices that were kept; an expert counts once.
template <typename Row>
class KeptChoices {
 public:
  explicit KeptChoices(const Row& row) : row_(row) {}
  /// f(expert, its weight's gradient) for each.
  template <typename F>
  void each(const F& f) const {
    for (std::int64_t j = 0; j < row_.size(kGateGradK); ++j) {
      const std::int64_t e = expert(j);
      bool counts = e >= 0;
      for (std::int64_t i = 0; counts && i < j; ++i) counts = expert(i) != e;
      if (counts) f(e, gradient(j));
    }
  }
  /// The gradient of an expert's weight; false: it was not kept.
  bool find(std::int64_t e, double& dw) const {
    for (std::int64_t j = 0; j < row_.size(kGateGradK); ++j) {
      if (expert(j) != e) continue;
      dw = gradient(j);
      return true;
    }
    return false;
  }

 private:
  std::int64_t item(std::int64_t j) const { return j * row_.size(kGateGradT) + row_.index(); }
  double gradient(std::int64_t j) const { return row_.load_column(kGateGradWeights, item(j)); }
  std::int64_t expert(std::int64_t j) const {
    const double id = row_.load_column(kGateGradKept, item(j));
    const bool there = id >= 0 && id < static_cast<double>(row_.size(kGateGradE));
    return there ? static_cast<std::int64_t>(id) : -1;
  }
  const Row& row_;
};

template <typename Row>
void topk_gating_backward_row(Row& row) {
  const std::int64_t experts = row.size(kGateGradE);
  const double least = least_sum(row.dtype(kGateGradWeights));
  const auto count = static_cast<double>(row.size(kGateGradT));
  const double slope = row.value(kGateGradAux) * static_cast<double>(experts) / (count * count);
  const auto first = [&](auto e) { return row.load_column(kGateGradFirst, e); };
  const auto x = [&](auto e) { return row.load(kGateGradLogits, e); };
  const GateSums gates = gate_sums(row, kGateGradLogits, experts);
  const KeptChoices<Row> kept(row);
  double sum = 0, errors = 0, n = 0;
  kept.each([&](std::int64_t e, double) {
    sum += gates.gate(x(e)), errors += gates.gate(x(e)) * gates.own_error(x(e)), ++n;
  });
  const bool divided = !(sum < least);
  const double divisor = divided ? sum : least;
  // Of a weight, relative; what all gates have in common leaves a quotient of two.
  const auto weight_error = [&](std::int64_t e) {
    if (!divided) return gates.gate_error(x(e)) + 2;
    return n > 1 ? gates.own_error(x(e)) + errors / sum + 4 : 0.0;
  };
  double along = 0, along_size = 0, along_off = 0, along_spread = 0;
  kept.each([&](std::int64_t e, double dw) {
    along += gates.gate(x(e)) / divisor * dw;
    along_size += gates.gate(x(e)) / divisor * std::abs(dw);
  });
  const double shared = divided ? along : 0;
  // Where weights add up to 1, only differences count.
  kept.each([&](std::int64_t e, double dw) {
    const double part = gates.gate(x(e)) / divisor * std::abs(dw - shared);
    along_spread += part;
    along_off += part * (divided ? gates.own_error(x(e)) + 1 : weight_error(e));
  });
  if (!divided) along_off += 2 * along_size;
  const auto sums = row.template sums<2>(experts, [&](auto e, double* terms) {
    const double term = gates.gate(x(e)) * slope * first(e);
    terms[0] = term, terms[1] = term * term;
  });
  const double balance = sums.of[0];
  const double spread = row.sum(experts, [&](auto e) {
    return gates.gate(x(e)) * std::abs(slope * first(e) - balance) * gates.own_error(x(e));
  });
  const double mean = balance + (divided ? 0 : along);
  // Gates add up to 1, but for what they have in common: the sum of powers and its inverse.
  const double in_sums = kernels::sum_roundings(experts, std::abs(balance), sums.of[1]);
  const double mean_off = spread + std::abs(balance) * (4 + in_sums) + (divided ? 0 : along_off);
  const double few = 1.5 * (1 + static_cast<double>(experts) / 8192);
  const double nearly = sum > 0 ? errors / sum + gates.gate_error(x(0)) + n + 5 : 0;
  const bool near = std::abs(sum - least) <= 4 * nearly * kRounding * least;
  row.each(experts, [&](auto e) {
    const double a = slope * first(e), gate = gates.gate(x(e));
    double own = 0, size = 0, off = 0, dw = 0;
    if (kept.find(e, dw)) {
      const double weight = gate / divisor, rest = dw - shared;
      own = weight * rest;
      size = weight * (std::abs(rest) + (divided ? along_spread : 0));
      off = weight * (std::abs(rest) * (weight_error(e) + 4) + (divided ? along_off : 0));
    }
    const double value = gate * (a - mean) + own;
    // Gates below 2^-125 may be 0.
    const double flushed = (std::abs(a) + std::abs(mean) + along_size / least) * 0x1p-101;
    const double balanced =
        std::abs(a - mean) * (gates.gate_error(x(e)) + 2) + 2 * std::abs(a) + mean_off;
    const double worst = gate * balanced + off;
    const double all = gate * (std::abs(a - mean) + std::abs(a) + std::abs(balance)) + size +
                       (divided ? 0 : gate * along_size);
    row.store(
        0, e, value,
        near ? -1 : std::min(worst, few * std::sqrt(worst * all)) + std::abs(value) + flushed);
  });
}

}  // namespace dlblas::moe
