// The oracle of rms_norm_quant_group: codes of a normalised row, `group` columns at a time.
// Read next: ops/norm/rms_norm_quant_ref.hpp, which has the formula and the error it allows.
#pragma once

#include "ops/norm/rms_norm_quant_ref.hpp"

namespace dlblas::norm {

enum RmsNormQuantGroupTensor : int { kRmsNormQuantGroupX, kRmsNormQuantGroupWeight };

template <typename Row>
void rms_norm_quant_group_row(Row& row) {
  const auto h = [&](auto c) { return row.load(kRmsNormQuantGroupX, c); };
  const auto width = row.size(kC), group = row.size(kCodesGroup);
  const CodesRow of = codes_row(row, h);
  for (std::int64_t begin = 0, at = 0; begin < width; begin += std::min(group, width), ++at)
    store_codes(row, of, kRmsNormQuantGroupWeight, h, begin, begin + std::min(group, width - begin),
                at);
}

}  // namespace dlblas::norm
