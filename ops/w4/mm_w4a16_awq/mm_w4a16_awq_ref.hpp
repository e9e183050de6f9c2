// The oracle of mm_w4a16_awq. Read next: ops/w4/weights_ref.hpp.
#pragma once

#include "ops/w4/weights_ref.hpp"

namespace dlblas::w4 {

enum MmAwqLetter : int { kMmAwqM, kMmAwqK, kMmAwqP, kMmAwqGroup };

template <typename Row>
void mm_w4a16_awq_row(Row& row) {
  product_row(row, row.size(kMmAwqK), 8 * row.size(kMmAwqP),
              [&](auto k, auto n) { return awq_weight(row, 1, row.size(kMmAwqGroup), k, n); });
}

}  // namespace dlblas::w4
