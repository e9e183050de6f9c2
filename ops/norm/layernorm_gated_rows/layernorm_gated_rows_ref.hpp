// The oracle of layernorm_gated_rows, in f64: v = x·silu(z) with the gate before the norm, else x;
// x̂ = (v − mean)·rstd, for an rms_norm v·rstd; y = x̂·weight + bias, times silu(z) with the gate
// after it. The error it allows, in units u = 2^-24: that of x̂ (layer_norm_moments.hpp; without a
// mean, the root's, ops/common/mean_square.hpp). A gated v has the error of its gate and one
// rounding, G·|v|: x̂ then has an error of rstd·G·(|v| + mean|v|), and its factor one of
// G·mean(|d|·(|v| + mean|v|)) relative to var + eps. The product with the weight and the sum with
// the bias round once each; a gate after the norm adds its own error. Read next:
// ops/common/silu_point.hpp, layernorm_gated_rows_program.hpp.
#pragma once

#include "ops/common/silu_point.hpp"
#include "ops/norm/layer_norm_moments.hpp"

namespace dlblas::norm {

enum GatedNormTensor : int { kGatedX, kGatedWeight, kGatedBias, kGatedZ };
enum GatedNormLetter : int { kGatedT, kGatedC, kGatedGroups };
enum GatedNormScalar : int { kGatedEps = 1, kGatedBehind, kGatedRms };

template <typename Row>
void layernorm_gated_rows_row(Row& row) {
  const auto width = row.width(kGatedX);
  const auto n = static_cast<double>(width);
  const bool gated = row.has(kGatedZ), behind = row.integer(kGatedBehind) != 0;
  const bool rms = row.integer(kGatedRms) != 0, before = gated && !behind;
  const auto gate = [&](auto c) { return activation::SiluPoint::at(row.load(kGatedZ, c)); };
  const auto x = [&](auto c) { return row.load(kGatedX, c) * (before ? gate(c).value : 1.0); };
  const auto x_off = [&](auto c) {
    return before ? activation::gated_off(row.load(kGatedX, c), 0, gate(c)) : 0.0;
  };
  const double eps = row.scalar(kGatedEps);
  const auto phase = row.index() % row.size(kGatedGroups);
  const auto m = rms ? rms_moments(row, width, eps, x) : layer_norm_moments(row, width, eps, x);
  const double common = rms ? 0 : row.sum(width, x_off) / n;
  const double moved =
      row.sum(width, [&](auto c) { return std::abs(x(c) - m.mean) * (x_off(c) + common); });
  const double factor_off = before ? moved / n * m.rstd * m.rstd : 0;
  row.each(width, [&](auto c) {
    const double weight = row.has(kGatedWeight) ? row.load_row(kGatedWeight, phase, c) : 1;
    const double product = m.normed(x(c)) * weight;
    double y = product + (row.has(kGatedBias) ? row.load_row(kGatedBias, phase, c) : 0);
    double off =
        m.normed_off(x(c)) + m.rstd * (x_off(c) + common) + std::abs(m.normed(x(c))) * factor_off;
    off = activation::kSecondOrder * std::abs(weight) * off + 2 * 0x1p-126 / kRounding +
          row.has(kGatedWeight) * std::abs(product) + row.has(kGatedBias) * std::abs(y);
    if (gated && behind) off = activation::gated_off(y, off, gate(c)), y *= gate(c).value;
    row.store(0, c, y, m.lost || factor_off * kRounding > 0x1p-6 ? -1 : off);
  });
}

}  // namespace dlblas::norm
