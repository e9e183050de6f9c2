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

#include <algorithm>

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

inline void topk_gating_backward_reference(const Args& args, const std::int64_t* rows,
                                           std::int64_t num_rows, OracleOut* out) {
  const std::int64_t tokens = args.letters[kGateGradT], experts = args.letters[kGateGradE];
  const std::int64_t choices = args.letters[kGateGradK];
  const double least = least_sum(args.tensors[kGateGradWeights].dtype);
  const auto count = static_cast<double>(tokens);
  const double slope =
      load_element(args.tensors[kGateGradAux], 0) * static_cast<double>(experts) / (count * count);
  const auto entry = [&](int tensor, std::int64_t at) {
    return load_element(args.tensors[tensor], at * args.tensors[tensor].strides[0]);
  };
  std::vector<double> own(static_cast<std::size_t>(experts)), off(own.size()), size(own.size());
  for (std::int64_t r = 0; r < num_rows; ++r) {
    const GateRow row(args.tensors[kGateGradLogits], rows[r]);
    double sum = 0, errors = 0, n = 0;
    std::vector<std::pair<std::int64_t, double>> kept;
    std::vector<bool> seen(static_cast<std::size_t>(experts));
    for (std::int64_t j = 0; j < choices; ++j) {
      const double id = entry(kGateGradKept, j * tokens + rows[r]);
      if (!(id >= 0 && id < static_cast<double>(experts))) continue;
      const auto e = static_cast<std::int64_t>(id);
      if (seen[static_cast<std::size_t>(e)]) continue;  // an expert counts once
      seen[static_cast<std::size_t>(e)] = true;
      kept.emplace_back(e, entry(kGateGradWeights, j * tokens + rows[r]));
      sum += row.gate(e), errors += row.gate(e) * row.own_error(e), ++n;
    }
    const bool divided = !(sum < least);
    const double divisor = divided ? sum : least;
    // Of a weight, relative; what all gates have in common leaves a quotient of two.
    const auto weight_error = [&](std::int64_t e) {
      if (!divided) return row.gate_error(e) + 2;
      return n > 1 ? row.own_error(e) + errors / sum + 4 : 0.0;
    };
    double along = 0, along_size = 0, along_off = 0, along_spread = 0;
    for (const auto& [e, dw] : kept) {
      along += row.gate(e) / divisor * dw;
      along_size += row.gate(e) / divisor * std::abs(dw);
    }
    const double shared = divided ? along : 0;
    for (const auto& [e, dw] : kept) {  // where weights add up to 1, only differences count
      const double part = row.gate(e) / divisor * std::abs(dw - shared);
      along_spread += part;
      along_off += part * (divided ? row.own_error(e) + 1 : weight_error(e));
    }
    if (!divided) along_off += 2 * along_size;
    std::fill(own.begin(), own.end(), 0.0);
    std::fill(off.begin(), off.end(), 0.0);
    std::fill(size.begin(), size.end(), 0.0);
    for (const auto& [e, dw] : kept) {
      const double weight = row.gate(e) / divisor, rest = dw - shared;
      own[static_cast<std::size_t>(e)] = weight * rest;
      size[static_cast<std::size_t>(e)] = weight * (std::abs(rest) + (divided ? along_spread : 0));
      off[static_cast<std::size_t>(e)] =
          weight * (std::abs(rest) * (weight_error(e) + 4) + (divided ? along_off : 0));
    }
    double balance = 0, squares = 0, spread = 0;
    for (std::int64_t e = 0; e < experts; ++e) {
      const double term = row.gate(e) * slope * entry(kGateGradFirst, e);
      balance += term, squares += term * term;
    }
    for (std::int64_t e = 0; e < experts; ++e)
      spread +=
          row.gate(e) * std::abs(slope * entry(kGateGradFirst, e) - balance) * row.own_error(e);
    const double mean = balance + (divided ? 0 : along);
    // Gates add up to 1, but for what they have in common: the sum of powers and its inverse.
    const double sums = kernels::sum_roundings(experts, std::abs(balance), squares);
    const double mean_off = spread + std::abs(balance) * (4 + sums) + (divided ? 0 : along_off);
    const double few = 1.5 * (1 + static_cast<double>(experts) / 8192);
    const double nearly = sum > 0 ? errors / sum + row.gate_error(0) + n + 5 : 0;
    const bool near = std::abs(sum - least) <= 4 * nearly * kRounding * least;
    for (std::int64_t e = 0; e < experts; ++e) {
      const double a = slope * entry(kGateGradFirst, e), gate = row.gate(e);
      const double value = gate * (a - mean) + own[static_cast<std::size_t>(e)];
      const double stored = round_to(args.result(0).dtype, value);
      out[0].value[r * experts + e] = std::isinf(stored) ? stored : value;
      // Gates below 2^-125 may be 0.
      const double flushed = (std::abs(a) + std::abs(mean) + along_size / least) * 0x1p-101;
      const double balanced =
          std::abs(a - mean) * (row.gate_error(e) + 2) + 2 * std::abs(a) + mean_off;
      const double worst = gate * balanced + off[static_cast<std::size_t>(e)];
      const double all = gate * (std::abs(a - mean) + std::abs(a) + std::abs(balance)) +
                         size[static_cast<std::size_t>(e)] + (divided ? 0 : gate * along_size);
      out[0].magnitude[r * experts + e] =
          near ? -1 : std::min(worst, few * std::sqrt(worst * all)) + std::abs(value) + flushed;
    }
  }
}

}  // namespace dlblas::moe
