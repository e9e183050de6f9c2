// The oracle of grouped_gemm_masked_block: scaled products of the first masked_m[e] rows of group
// e with its weight; other rows are undefined. Read next:
// ops/gemm/grouped_block/grouped_block_ref.hpp.
#pragma once

#include "ops/gemm/grouped_block/grouped_block_ref.hpp"

namespace dlblas::gemm {

enum MaskedBlockLetter : int { kMaskedBlockE, kMaskedBlockM, kMaskedBlockK, kMaskedBlockN };

template <typename Row>
void grouped_gemm_masked_block_row(Row& row) {
  const int64_t rows = row.size(kMaskedBlockM), columns = row.size(kMaskedBlockN);
  const int64_t group = row.index() / rows, m = row.index() - group * rows;
  if (m >= group_limit(row, group, rows)) return store_nothing(row, columns);
  store_block_sums(row, group, columns, row.size(kMaskedBlockK));
}

}  // namespace dlblas::gemm
