// The oracle of group_norm_rows: y = (x − mean)/√(var + eps)·weight + bias, in f64, and optionally
// silu. The error it allows, in units u = 2^-24: that of x̂ (layer_norm_moments.hpp), times
// |weight|; the product and the sum with the bias round once each. silu amplifies that by at most
// 1.1, and adds its own (ops/common/silu_point.hpp). Read next: group_norm_rows_program.hpp.
#pragma once

#include "ops/common/silu_point.hpp"
#include "ops/norm/layer_norm_moments.hpp"

namespace dlblas::norm {

enum GroupNormTensor : int { kGroupNormX, kGroupNormWeight, kGroupNormBias };
enum GroupNormLetter : int { kGroupNormT, kGroupNormC, kGroupNormGroups, kGroupNormInner };
enum GroupNormScalar : int { kGroupNormEps = 2, kGroupNormActivation };

template <typename Row>
void group_norm_rows_row(Row& row) {
  const auto width = row.size(kGroupNormC), inner = row.size(kGroupNormInner);
  const auto x = [&](auto c) { return row.load(kGroupNormX, c); };
  const auto moments = layer_norm_moments(row, width, row.scalar(kGroupNormEps), x);
  const auto phase = row.index() % row.size(kGroupNormGroups);
  row.each(width, [&](auto c) {
    const double factor =
        row.has(kGroupNormWeight) ? row.load_row(kGroupNormWeight, phase, c / inner) : 1;
    const double product = moments.normed(x(c)) * factor;
    double y =
        product + (row.has(kGroupNormBias) ? row.load_row(kGroupNormBias, phase, c / inner) : 0);
    double off = std::abs(factor) * moments.normed_off(x(c)) + std::abs(product) + std::abs(y) +
                 2 * 0x1p-126 / kRounding;
    if (row.integer(kGroupNormActivation) == 1) {
      const auto gate = activation::SiluPoint::at(y);
      off = 1.1 * off + activation::kSecondOrder * gate.value_off + activation::kTiny;
      y = gate.value;
    }
    row.store(0, c, y, moments.lost ? -1 : off);
  });
}

}  // namespace dlblas::norm
