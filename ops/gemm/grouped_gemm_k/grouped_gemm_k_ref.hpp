// The oracle of grouped_gemm_k: out[e] = aᵀ · b over the rows of group e; 0 for an empty group.
// Read next: ops/gemm/grouped/grouped_ref.hpp.
#pragma once

#include "ops/gemm/grouped/grouped_ref.hpp"

namespace dlblas::gemm {

enum GroupedDepthLetter : int { kDepthM, kDepthN, kDepthK, kDepthE };

template <typename Row>
void grouped_gemm_k_row(Row& row) {
  const int64_t rows = row.size(kDepthM), width = row.size(kDepthN);
  const int64_t group = row.index() / width, n = row.index() - group * width;
  const int64_t begin = group_limit(row, group, rows), end = group_limit(row, group + 1, rows);
  store_sums(row, row.size(kDepthK), std::max<int64_t>(0, end - begin), [&](int64_t k, int64_t i) {
    return Factors{row.load_row(0, begin + i, n), row.load_row(1, begin + i, k)};
  });
}

}  // namespace dlblas::gemm
