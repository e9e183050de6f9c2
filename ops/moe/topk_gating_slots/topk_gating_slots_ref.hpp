// The oracle of topk_gating_slots, in f64. Logits are compared exactly, so choices, slots and
// tables are right or wrong; weights and l_aux have errors, in units of 2^-24:
//   a weight is e^(x − max) over the sum of those that stay: 5 units, one rounding for each of
// them, and the errors of the powers; if the sum is below eps, the gate's own errors.
//   l_aux is a mean of gates over tokens. A token's gates have at most n roundings, independent of
// each other and of other tokens': 0.5·√n in the root mean square, six standard deviations over all
// tokens; plus the sums' own: 7 over the tokens of a warp, half a step each.
// Read next: ops/moe/gating/gating_ref.hpp, ops/moe/gating/gating.cuh.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/moe/gating/gating_ref.hpp"

namespace dlblas::moe {

enum GateTensor : int {
  kGateLogits,
  kGateAux,
  kGateSlots,
  kGateWeights,
  kGateSelect,
  kGateKept,
  kGateFirst
};
enum GateLetter : int { kGateT, kGateE, kGateK, kGateCapacity };

/// A row's gates, by expert.
class GateRow {
 public:
  GateRow(const TensorView& logits_of, kernels::HostRow& row, std::int64_t index)
      : logits(kernels::row_values(logits_of, index)) {
    row.move_to(index, 0);
    sums_ = gate_sums(row, kGateLogits, static_cast<std::int64_t>(logits.size()));
  }
  double gate(std::int64_t e) const { return sums_.gate(at(e)); }
  double own_error(std::int64_t e) const { return sums_.own_error(at(e)); }
  double gate_error(std::int64_t e) const { return sums_.gate_error(at(e)); }
  const std::vector<double> logits;

 private:
  double at(std::int64_t e) const { return logits[static_cast<std::size_t>(e)]; }
  GateSums sums_;
};

inline void topk_gating_slots_reference(const Args& args, const std::int64_t* rows,
                                        std::int64_t num_rows, OracleOut* out) {
  const std::int64_t tokens = args.letters[kGateT], experts = args.letters[kGateE];
  const std::int64_t choices = args.letters[kGateK], capacity = args.letters[kGateCapacity];
  const std::int64_t there = std::min(choices, experts);
  const double least = least_sum(args.result(0).dtype);
  kernels::HostRow row_of(args, out);
  std::vector<GateRow> gates;
  std::vector<std::vector<std::int64_t>> chosen;
  std::vector<double> first(static_cast<std::size_t>(experts));
  for (std::int64_t t = 0; t < tokens; ++t) {
    gates.emplace_back(args.tensors[kGateLogits], row_of, t);
    chosen.push_back(kernels::largest(gates.back().logits, there));
    if (there > 0) ++first[static_cast<std::size_t>(chosen.back()[0])];
  }
  double l_aux = 0, worst = 0, squares = 0;
  for (const GateRow& row : gates) {
    double own = 0, error = 0;
    for (std::int64_t e = 0; e < experts; ++e) {
      const double part = first[static_cast<std::size_t>(e)] * row.gate(e);
      own += part, error += part * row.gate_error(e);
    }
    l_aux += own, worst += error, squares += own * error;  // own² · the mean of n
  }
  const auto scale = static_cast<double>(experts) / std::max(1.0, static_cast<double>(tokens)) /
                     std::max(1.0, static_cast<double>(tokens));
  const double sums = 1 + static_cast<double>(std::clamp<std::int64_t>(tokens - 1, 0, 7)) / 2;
  for (std::int64_t r = 0; r < num_rows; ++r) {
    if (rows[r] != 0) continue;  // all results are one row
    out[0].value[r] = l_aux * scale;
    out[0].magnitude[r] = (std::min(worst, 3 * std::sqrt(squares)) + sums * l_aux) * scale;
    const std::int64_t items = choices * tokens;
    double *slots = out[1].value + r * items, *kept = out[4].value + r * items;
    double *weights = out[2].value + r * items, *errors_of = out[2].magnitude + r * items;
    double* select = out[3].value + r * experts * capacity;
    std::fill_n(select, experts * capacity, 0.0);
    std::vector<std::int64_t> next(static_cast<std::size_t>(experts));
    for (std::int64_t j = 0; j < choices; ++j)
      for (std::int64_t t = 0; t < tokens; ++t) {
        const std::int64_t item = j * tokens + t;
        const auto& of = chosen[static_cast<std::size_t>(t)];
        const std::int64_t e = j < there ? of[static_cast<std::size_t>(j)] : -1;
        const std::int64_t place = e < 0 ? 0 : next[static_cast<std::size_t>(e)]++;
        const bool stays = e >= 0 && place < capacity;
        slots[item] = stays ? static_cast<double>(e * capacity + place) : 0;
        kept[item] = stays ? static_cast<double>(e) : -1;
        if (stays) select[e * capacity + place] = static_cast<double>(t);
      }
    for (std::int64_t t = 0; t < tokens; ++t) {
      const GateRow& row = gates[static_cast<std::size_t>(t)];
      double sum = 0, errors = 0, count = 0;
      for (std::int64_t j = 0; j < there; ++j) {
        const std::int64_t e = chosen[static_cast<std::size_t>(t)][static_cast<std::size_t>(j)];
        if (kept[j * tokens + t] < 0) continue;
        sum += row.gate(e), errors += row.gate(e) * row.own_error(e), ++count;
      }
      for (std::int64_t j = 0; j < choices; ++j) {
        const std::int64_t item = j * tokens + t;
        const auto e = static_cast<std::int64_t>(kept[item]);
        if (e < 0) {
          weights[item] = 0;
          continue;
        }
        const bool divided = !(sum < least * (1 - 0x1p-15));
        const double error = divided ? 5 + count + errors / sum + row.own_error(e) : 0;
        const double clamped = sum < least * (1 + 0x1p-15) ? row.gate_error(e) + 2 : 0;
        weights[item] = row.gate(e) / (sum < least ? least : sum);
        errors_of[item] = weights[item] * std::max(error, clamped);
      }
    }
    std::copy(first.begin(), first.end(), out[5].value + r * experts);
  }
}

}  // namespace dlblas::moe
