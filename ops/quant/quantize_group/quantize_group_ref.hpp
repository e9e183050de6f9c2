// The oracle of quantize_group: `group` columns at a time. Read next: ops/common/quant_ref.hpp.
#pragma once

#include "ops/common/quant_ref.hpp"

namespace dlblas::quant {

enum QuantizeLetter : int { kQuantizeT, kQuantizeK, kQuantizeGroup };
enum QuantizeScalar : int { kQuantizeGroupSize, kQuantizeDtype, kQuantizeScaleDtype };

template <typename Row>
void quantize_group_row(Row& row) {
  const auto width = row.size(kQuantizeK), group = row.size(kQuantizeGroup);
  for (std::int64_t begin = 0, at = 0; begin < width; begin += std::min(group, width), ++at)
    quantize_columns(row, row.result_dtype(0), begin, begin + std::min(group, width - begin), at,
                     row.integer(kQuantizeScaleDtype) != 0);
}

}  // namespace dlblas::quant
