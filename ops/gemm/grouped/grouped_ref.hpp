// The oracle of grouped products: sums in f64, and what error is allowed. One text for the three
// operators, which differ in which terms an element has. Two roundings come on top of the sum's.
// Read next: device/oracle/sum_error.hpp, ops/oracle_text.hpp.
#pragma once

#include "ops/oracle_text.hpp"

namespace dlblas::gemm {

/// Offset or count `at` of tensor 2, within [0, most].
template <typename Row>
int64_t group_limit(Row& row, int64_t at, int64_t most) {
  const double v = row.load_column(2, at);
  return v < 0 ? 0 : v > static_cast<double>(most) ? most : static_cast<int64_t>(v);
}

/// Columns of the row: each the sum of `terms` products term(column, i).
template <typename Row, typename Term>
void store_sums(Row& row, int64_t columns, int64_t terms, const Term& term) {
  const SumModel model = sum_model(terms, row.dtype(0) != DType::kF32);
  row.each(columns, [&](auto n) {
    SumWalk walk;
    for (int64_t i = 0; i < terms; ++i) walk.add(term(n, i));
    row.store(0, n, walk.sum(), sum_error(model, walk.sizes()) + 2 * std::abs(walk.sum()));
  });
}

/// A row that no group has.
template <typename Row>
void store_nothing(Row& row, int64_t columns) {
  row.each(columns, [&](auto n) { row.store(0, n, 0, -1); });
}

}  // namespace dlblas::gemm
