// The oracle of topk_gating_backward, in f64. With g = softmax(logits), D the sum of a token's kept
// gates and D' = max(D, eps): the gradient of an expert's gate is a = dl_aux · E · first_choices /
// T², plus, for a kept choice, s = dw / D' − [D ≥ eps] · Σ dw · g / D'², and dlogits = g · (a + s −
// Σ_e g · (a + s)). With w = g / D' this is g · (a − Σ g · a) + w · (dw − Σ w · dw) where D ≥ eps,
// and g · (a − Σ g · a − Σ w · dw) + w · dw elsewhere, which is what this oracle and the kernels
// compute.
// The error it allows, in units of 2^-24, counts each rounding in full: a power e^(x − max) has an
// error of 2.5 (the largest is exactly 1), a gate two more and that of the sum of powers, each
// product one. Sums and differences are in f64, so a mean only has the errors of its powers, each
// times its distance from that mean: the error they share cancels. A token whose D is as near to
// eps as its error is undefined: either side is right. Read next: ops/moe/gating/gating_ref.hpp,
// ops/moe/gating/gating.cuh.
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
  /// f(expert, its weight's gradient) for each of them.
  template <typename F>
  void each(const F& f) const {
    for (std::int64_t j = 0; j < row_.size(kGateGradK); ++j) {
      const std::int64_t e = expert(j);
      bool counts = e >= 0;
      for (std::int64_t i = 0; counts && i < j; ++i) counts = expert(i) != e;
      if (counts) f(e, gradient(j));
    }
  }
  /// The gradient of an expert's weight; false if the expert was not kept.
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
  const auto power_error = [&](auto e) { return x(e) == gates.most ? 0.0 : 2.5; };
  double sum = 0, errors = 0;
  kept.each([&](std::int64_t e, double) {
    sum += gates.gate(x(e)), errors += gates.gate(x(e)) * power_error(e);
  });
  const bool divided = !(sum < least);
  const double divisor = divided ? sum : least;
  double along = 0, along_size = 0, gradients = 0;
  kept.each([&](std::int64_t e, double dw) {
    along += gates.gate(x(e)) / divisor * dw;
    along_size += gates.gate(x(e)) / divisor * std::abs(dw);
    gradients += std::abs(dw);
  });
  const auto sums = row.template sums<2>(experts, [&](auto e, double* terms) {
    terms[0] = gates.gate(x(e)) * slope * first(e);
    terms[1] = gates.gate(x(e)) * power_error(e);
  });
  const double balance = sums.of[0], common = sums.of[1];  // what the sum of powers is off by
  const double spread = row.sum(experts, [&](auto e) {
    return gates.gate(x(e)) * std::abs(slope * first(e) - balance) * power_error(e);
  });
  double along_off = 0;
  kept.each([&](std::int64_t e, double dw) {  // weights add up to 1: only differences count
    along_off += gates.gate(x(e)) / divisor *
                 (divided ? std::abs(dw - along) * power_error(e)
                          : std::abs(dw) * (power_error(e) + common));
  });
  const double mean = balance + (divided ? 0 : along);
  const double mean_off = spread + (divided ? 0 : along_off);
  const double shared = divided ? errors / sum : common;
  const bool near = std::abs(sum - least) <= 4 * (8 + common) * kRounding * least;
  row.each(experts, [&](auto e) {
    const double a = slope * first(e), gate = gates.gate(x(e));
    double own = 0, off = 0, dw = 0;
    if (kept.find(e, dw)) {
      const double weight = gate / divisor, rest = divided ? dw - along : dw;
      own = weight * rest;
      off = weight * (std::abs(rest) * (power_error(e) + shared + 3) + (divided ? along_off : 0));
    }
    const double value = gate * (a - mean) + own;
    // Gates below 2^-125 may be 0, in a weight and in the sum of weights, too; sums in f64 have a
    // negligible error relative to their terms.
    const double flushed =
        (std::abs(a) + std::abs(mean) + along_size / least + 2 * gradients / divisor) * 0x1p-101;
    const double nearly = gate * (std::abs(a) + std::abs(mean) + along_size / divisor) * 0x1p-20;
    const double worst =
        gate * (std::abs(a - mean) * (power_error(e) + common + 4) + mean_off) + off;
    row.store(0, e, value, near ? -1 : worst + std::abs(value) + flushed + nearly);
  });
}

}  // namespace dlblas::moe
