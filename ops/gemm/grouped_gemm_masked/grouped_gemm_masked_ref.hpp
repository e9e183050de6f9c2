// The oracle of grouped_gemm_masked: out[e, m] = a[e, m] · weight[e]ᵀ for m < masked_m[e]; other
// rows are undefined. Read next: ops/gemm/grouped/grouped_ref.hpp.
#pragma once

#include "ops/gemm/grouped/grouped_ref.hpp"

namespace dlblas::gemm {

enum GroupedMaskedLetter : int { kMaskedE, kMaskedM, kMaskedK, kMaskedN };

template <typename Row>
void grouped_gemm_masked_row(Row& row) {
  const int64_t rows = row.size(kMaskedM), columns = row.size(kMaskedN);
  const int64_t group = row.index() / rows, m = row.index() - group * rows;
  if (m >= group_limit(row, group, rows)) return store_nothing(row, columns);
  store_sums(row, columns, row.size(kMaskedK), [&](int64_t n, int64_t k) {
    return Factors{row.load(0, k), row.load_row(1, group * columns + n, k)};
  });
}

}  // namespace dlblas::gemm
