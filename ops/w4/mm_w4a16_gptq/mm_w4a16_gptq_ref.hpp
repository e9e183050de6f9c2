// The oracle of mm_w4a16_gptq. Read next: ops/w4/weights_ref.hpp.
#pragma once

#include "ops/w4/weights_ref.hpp"

namespace dlblas::w4 {

enum MmGptqLetter : int { kMmGptqM, kMmGptqQ, kMmGptqN, kMmGptqGroup };
enum MmGptqScalar : int { kMmGptqGroupScalar, kMmGptqMinusOne };

template <typename Row>
void mm_w4a16_gptq_row(Row& row) {
  product_row(row, 8 * row.size(kMmGptqQ), row.size(kMmGptqN), [&](auto k, auto n) {
    return gptq_weight(row, 1, row.size(kMmGptqGroup), row.integer(kMmGptqMinusOne), k, n);
  });
}

}  // namespace dlblas::w4
