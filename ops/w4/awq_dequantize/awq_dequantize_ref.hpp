// The oracle of awq_dequantize. Read next: ops/w4/weights_ref.hpp.
#pragma once

#include "ops/w4/weights_ref.hpp"

namespace dlblas::w4 {

enum AwqLetter : int { kAwqR, kAwqG, kAwqP };

template <typename Row>
void awq_dequantize_row(Row& row) {
  row.each(8 * row.size(kAwqP), [&](auto n) {
    row.store(0, n, awq_weight(row, 0, row.size(kAwqG), row.index(), n), 0);
  });
}

}  // namespace dlblas::w4
