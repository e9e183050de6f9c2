// The oracle of linear_residual: y = act(row_scale · column_scale · (x · weightᵀ) + bias) +
// residual, in f64. Allowed error, in units u = 2^-24: that of the sum (ops/common/dot_ref.hpp)
// times the scales; two roundings for the scales; those of bias and activation (matmul_ref.hpp);
// and one for the final addition. Read next: ops/common/oracle_text.hpp, linear_residual.cpp.
#pragma once

#include "ops/common/dot_ref.hpp"
#include "ops/common/oracle_text.hpp"
#include "ops/gemm/matmul/matmul_ref.hpp"

namespace dlblas::gemm {

enum LinearResidualTensor : int {
  kLinearX,
  kLinearWeight,
  kLinearBias,
  kLinearResidual,
  kLinearRowScale,
  kLinearColumnScale,
  kLinearY
};
enum LinearResidualLetter : int { kLinearT, kLinearK, kLinearN };
enum LinearResidualScalar : int { kLinearActivation, kLinearOutDtype };

template <typename Row>
void linear_residual_row(Row& row) {
  const auto activation = static_cast<Activation>(row.integer(kLinearActivation));
  const double of_row = row.has(kLinearRowScale) ? row.load(kLinearRowScale, 0) : 1;
  const auto x = [&](auto k) { return row.load(kLinearX, k); };
  const auto column = [&](int tensor, auto c, double none) {
    return row.has(tensor) ? row.load_column(tensor, c) : none;
  };
  row.each(row.size(kLinearN), [&](auto c) {
    const mlp::DotSum dot =
        mlp::dot_of(row, row.dtype(kLinearX), row.size(kLinearK), x, kLinearWeight, c);
    const double scale = of_row * column(kLinearColumnScale, c, 1);
    const double scaled = dot.sum * scale, bias = column(kLinearBias, c, 0);
    const double residual = row.has(kLinearResidual) ? row.load(kLinearResidual, c) : 0;
    const double active = activate(scaled + bias, activation);
    // Infinities and NaN must match exactly.
    if (!std::isfinite(scaled + bias)) return row.store(0, c, active + residual, 0);
    const double before =
        (epilogue_roundings(activation) + 2) * (std::abs(scaled) + std::abs(bias));
    row.store(0, c, active + residual,
              lipschitz(activation) * (std::abs(scale) * dot.off + before) + std::abs(active) +
                  std::abs(residual));
  });
}

}  // namespace dlblas::gemm
