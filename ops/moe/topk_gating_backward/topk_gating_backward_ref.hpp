// The oracle of topk_gating_backward, in f64. With g = softmax(logits), D the sum of a token's kept
// gates and D' = max(D, eps): an expert's gate gets a = dl_aux · E · first_choices / T², that of a
// kept choice besides s = dw / D' − [D ≥ eps] · Σ dw · g / D'², and dlogits = g · (a + s − Σ_e g ·
// (a + s)). With w = g / D' this is g · (a − Σ g · a) + w · (dw − Σ w · dw) where D ≥ eps, and
// g · (a − Σ g · a − Σ w · dw) + w · dw elsewhere: what is computed here and in kernels.
// The error it allows, in units of 2^-24, counts each rounding in full: a power e^(x − max) is off
// by 2.5 (the largest is 1), a gate by two more and by what their sum is, products by one each;
// sums and differences are f64, so that a mean is off by the powers it is made of alone, each on
// its distance from that mean: what all have in common cancels. A token whose D is as near to eps
// as its error is undefined: either side is right. Read next: ops/moe/gating/gating_ref.hpp,
// ops/moe/gating/gating.cuh.
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
  std::vector<double> own(static_cast<std::size_t>(experts)), off(own.size());
  for (std::int64_t r = 0; r < num_rows; ++r) {
    const GateRow row(args.tensors[kGateGradLogits], rows[r]);
    const auto power_error = [&](std::int64_t e) { return row.is_most(e) ? 0.0 : 2.5; };
    double sum = 0, errors = 0;
    std::vector<std::pair<std::int64_t, double>> kept;
    std::vector<bool> seen(static_cast<std::size_t>(experts));
    for (std::int64_t j = 0; j < choices; ++j) {
      const double id = entry(kGateGradKept, j * tokens + rows[r]);
      if (!(id >= 0 && id < static_cast<double>(experts))) continue;
      const auto e = static_cast<std::int64_t>(id);
      if (seen[static_cast<std::size_t>(e)]) continue;  // an expert counts once
      seen[static_cast<std::size_t>(e)] = true;
      kept.emplace_back(e, entry(kGateGradWeights, j * tokens + rows[r]));
      sum += row.gate(e), errors += row.gate(e) * power_error(e);
    }
    const bool divided = !(sum < least);
    const double divisor = divided ? sum : least;
    double along = 0, along_size = 0;
    for (const auto& [e, dw] : kept) {
      along += row.gate(e) / divisor * dw;
      along_size += row.gate(e) / divisor * std::abs(dw);
    }
    double balance = 0, common = 0, mean_off = 0;  // `common`: what the sum of powers is off by
    for (std::int64_t e = 0; e < experts; ++e) {
      balance += row.gate(e) * slope * entry(kGateGradFirst, e);
      common += row.gate(e) * power_error(e);
    }
    for (std::int64_t e = 0; e < experts; ++e)
      mean_off +=
          row.gate(e) * std::abs(slope * entry(kGateGradFirst, e) - balance) * power_error(e);
    double along_off = 0;
    for (const auto& [e, dw] : kept)  // weights add up to 1: only differences count
      along_off += row.gate(e) / divisor *
                   (divided ? std::abs(dw - along) * power_error(e)
                            : std::abs(dw) * (power_error(e) + common));
    const double mean = balance + (divided ? 0 : along);
    if (!divided) mean_off += along_off;
    std::fill(own.begin(), own.end(), 0.0);
    std::fill(off.begin(), off.end(), 0.0);
    for (const auto& [e, dw] : kept) {
      const double weight = row.gate(e) / divisor, rest = divided ? dw - along : dw;
      const double shared = divided ? errors / sum : common;
      own[static_cast<std::size_t>(e)] = weight * rest;
      off[static_cast<std::size_t>(e)] =
          weight * (std::abs(rest) * (power_error(e) + shared + 3) + (divided ? along_off : 0));
    }
    const bool near = std::abs(sum - least) <= 4 * (8 + common) * kRounding * least;
    for (std::int64_t e = 0; e < experts; ++e) {
      const double a = slope * entry(kGateGradFirst, e), gate = row.gate(e);
      const double value = gate * (a - mean) + own[static_cast<std::size_t>(e)];
      const double stored = round_to(args.result(0).dtype, value);
      out[0].value[r * experts + e] = std::isinf(stored) ? stored : value;
      // Gates below 2^-125 may be 0; sums in f64 are off by next to nothing of their terms.
      const double flushed = (std::abs(a) + std::abs(mean) + along_size / least) * 0x1p-101;
      const double nearly = gate * (std::abs(a) + std::abs(mean) + along_size / divisor) * 0x1p-20;
      const double worst = gate * (std::abs(a - mean) * (power_error(e) + common + 4) + mean_off) +
                           off[static_cast<std::size_t>(e)];
      out[0].magnitude[r * experts + e] = near ? -1 : worst + std::abs(value) + flushed + nearly;
    }
  }
}

}  // namespace dlblas::moe
