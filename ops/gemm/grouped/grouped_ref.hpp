// The oracle of grouped products: sums in f64, and the allowed error. One text serves all
// operators, which differ only in the terms of an element. Two roundings are allowed beyond the
// sum's; for bf16, products with an operand below f32's normal range may count as zero (as in the
// CPUs' bf16 dot products).
// Read next: device/oracle/sum_error.hpp, ops/common/oracle_text.hpp.
#pragma once

#include "ops/common/oracle_text.hpp"

namespace dlblas::gemm {

/// Offset or count `at` of tensor 2, within [0, most].
template <typename Row>
int64_t group_limit(Row& row, int64_t at, int64_t most) {
  const double v = row.load_column(2, at);
  return v < 0 ? 0 : v > static_cast<double>(most) ? most : static_cast<int64_t>(v);
}

/// The group of row m among `groups` with `rows` rows in all; -1: none.
template <typename Row>
int64_t group_of(Row& row, int64_t m, int64_t groups, int64_t rows) {
  int64_t group = -1;
  for (int64_t e = 0; e < groups && group < 0; ++e)
    if (group_limit(row, e, rows) <= m && m < group_limit(row, e + 1, rows)) group = e;
  return group;
}

/// Factors of a product.
struct Factors {
  double a, b;
};

/// Stores the row's columns, each the sum of `terms` products factors(column, i).
template <typename Row, typename Terms>
void store_sums(Row& row, int64_t columns, int64_t terms, const Terms& factors) {
  const bool flushes = row.dtype(0) == DType::kBF16;
  const SumModel model = sum_model(terms, row.dtype(0) != DType::kF32);
  row.each(columns, [&](auto n) {
    SumWalk walk;
    double lost = 0;
    for (int64_t i = 0; i < terms; ++i) {
      const Factors f = factors(n, i);
      const double product = f.a * f.b;
      walk.add(product);
      const bool is_tiny = std::abs(f.a) < 0x1p-126 || std::abs(f.b) < 0x1p-126;
      if (flushes && is_tiny && std::isfinite(product)) lost += std::abs(product);
    }
    row.store(0, n, walk.sum(),
              sum_error(model, walk.sizes()) + 2 * std::abs(walk.sum()) + lost / kRounding);
  });
}

/// A row in no group.
template <typename Row>
void store_nothing(Row& row, int64_t columns) {
  row.each(columns, [&](auto n) { row.store(0, n, 0, -1); });
}

}  // namespace dlblas::gemm
