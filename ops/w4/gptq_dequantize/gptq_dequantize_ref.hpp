// The oracle of gptq_dequantize. Read next: ops/w4/weights_ref.hpp.
#pragma once

#include "ops/w4/weights_ref.hpp"

namespace dlblas::w4 {

enum GptqLetter : int { kGptqQ, kGptqN, kGptqGroup };
enum GptqScalar : int { kGptqGroupScalar, kGptqMinusOne };

template <typename Row>
void gptq_dequantize_row(Row& row) {
  row.each(row.size(kGptqN), [&](auto n) {
    const double v =
        gptq_weight(row, 0, row.size(kGptqGroup), row.integer(kGptqMinusOne), row.index(), n);
    row.store(0, n, v, 0);
  });
}

}  // namespace dlblas::w4
