// The oracle of grouped_gemm_rows_block: scaled products of a group's rows with its weight; a row
// in no group is undefined. Read next: ops/gemm/grouped_block/grouped_block_ref.hpp.
#pragma once

#include "ops/gemm/grouped_block/grouped_block_ref.hpp"

namespace dlblas::gemm {

enum RowsBlockLetter : int { kRowsBlockM, kRowsBlockK, kRowsBlockE, kRowsBlockN };

template <typename Row>
void grouped_gemm_rows_block_row(Row& row) {
  const int64_t rows = row.size(kRowsBlockM), columns = row.size(kRowsBlockN), m = row.index();
  int64_t group = -1;
  for (int64_t e = 0; e < row.size(kRowsBlockE) && group < 0; ++e)
    if (group_limit(row, e, rows) <= m && m < group_limit(row, e + 1, rows)) group = e;
  if (group < 0) return store_nothing(row, columns);
  store_block_sums(row, group, columns, row.size(kRowsBlockK));
}

}  // namespace dlblas::gemm
