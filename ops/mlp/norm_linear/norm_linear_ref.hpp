// The oracle of norm_linear: y = rms_norm(x, rms_w, eps) · weightᵀ, in f64. For the allowed error
// see ops/mlp/norm_ref.hpp. Read next: norm_linear.cpp.
#pragma once

#include "ops/mlp/norm_ref.hpp"

namespace dlblas::mlp {

enum NormLinearTensor : int { kNormX, kNormGain, kNormWeight, kNormY };
enum NormLinearLetter : int { kNormT, kNormK, kNormN };
enum NormLinearScalar : int { kNormEps };

template <typename Row>
void norm_linear_row(Row& row) {
  const NormedRow<Row> x(row, kNormX, kNormGain, row.size(kNormK), row.scalar(kNormEps));
  row.each(row.size(kNormN), [&](auto c) {
    const OffSum dot = x.times(kNormWeight, c);
    row.store(0, c, dot.sum, std::isfinite(dot.sum) ? dot.off : 0);
  });
}

}  // namespace dlblas::mlp
