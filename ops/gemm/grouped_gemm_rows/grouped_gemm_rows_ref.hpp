// The oracle of grouped_gemm_rows: out[m] = a[m] · weight[e]ᵀ, e being the group that contains row
// m; a row in no group is undefined. Read next: ops/gemm/grouped/grouped_ref.hpp.
#pragma once

#include "ops/gemm/grouped/grouped_ref.hpp"

namespace dlblas::gemm {

enum GroupedRowsLetter : int { kRowsM, kRowsK, kRowsE, kRowsN };

template <typename Row>
void grouped_gemm_rows_row(Row& row) {
  const int64_t rows = row.size(kRowsM), columns = row.size(kRowsN), m = row.index();
  const int64_t group = group_of(row, m, row.size(kRowsE), rows);
  if (group < 0) return store_nothing(row, columns);
  store_sums(row, columns, row.size(kRowsK), [&](int64_t n, int64_t k) {
    return Factors{row.load(0, k), row.load_row(1, group * columns + n, k)};
  });
}

}  // namespace dlblas::gemm
