// The oracle of grouped_gemm_gathered: out[m] = a[rows[m]] · weight[e]ᵀ, e being the group that
// contains row m. A row of zeros stands for one that `rows` does not name; a row in no group is
// undefined. Read next: ops/gemm/grouped/grouped_ref.hpp.
#pragma once

#include "ops/gemm/grouped/grouped_ref.hpp"

namespace dlblas::gemm {

enum GroupedGatheredTensor : int { kGatheredA, kGatheredWeight, kGatheredOffsets, kGatheredRows };
enum GroupedGatheredLetter : int { kGatheredT, kGatheredK, kGatheredE, kGatheredN, kGatheredM };

template <typename Row>
void grouped_gemm_gathered_row(Row& row) {
  const int64_t columns = row.size(kGatheredN), m = row.index();
  const int64_t group = group_of(row, m, row.size(kGatheredE), row.size(kGatheredM));
  if (group < 0) return store_nothing(row, columns);
  const double named = row.load_column(kGatheredRows, m);
  const bool there = named >= 0 && named < static_cast<double>(row.size(kGatheredT));
  const int64_t source = there ? static_cast<int64_t>(named) : 0;
  store_sums(row, columns, row.size(kGatheredK), [&](int64_t n, int64_t k) {
    return Factors{there ? row.load_row(kGatheredA, source, k) : 0,
                   row.load_row(kGatheredWeight, group * columns + n, k)};
  });
}

}  // namespace dlblas::gemm
