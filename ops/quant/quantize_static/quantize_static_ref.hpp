// The oracle of quantize_static: codes with a given scale. Read next: ops/common/quant_ref.hpp.
#pragma once

#include "ops/common/quant_ref.hpp"

namespace dlblas::quant {

enum QuantizeStaticTensor : int { kQuantizeStaticX, kQuantizeStaticScale };
enum QuantizeStaticLetter : int { kQuantizeStaticT, kQuantizeStaticK };

template <typename Row>
void quantize_static_row(Row& row) {
  const double scale = row.value(kQuantizeStaticScale);
  row.each(row.size(kQuantizeStaticK), [&](auto c) {
    store_code(row, row.result_dtype(0), c, row.load(kQuantizeStaticX, c) / scale);
  });
}

}  // namespace dlblas::quant
