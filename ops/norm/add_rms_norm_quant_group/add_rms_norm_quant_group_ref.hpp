// The oracle of add_rms_norm_quant_group: codes of a normalised sum, `group` columns at a time.
// Read next: ops/norm/rms_norm_quant_ref.hpp, which has the formula and the error it allows.
#pragma once

#include "ops/norm/rms_norm_quant_ref.hpp"

namespace dlblas::norm {

enum AddRmsNormQuantGroupTensor : int {
  kAddRmsNormQuantGroupX,
  kAddRmsNormQuantGroupWeight,
  kAddRmsNormQuantGroupResidual
};

template <typename Row>
void add_rms_norm_quant_group_row(Row& row) {
  const DType dtype = row.result_dtype(2);
  const auto h = [&](auto c) {
    return hidden_sum(row, dtype, kAddRmsNormQuantGroupX, kAddRmsNormQuantGroupResidual, c);
  };
  const auto width = row.size(kC), group = row.size(kCodesGroup);
  const CodesRow of = codes_row(row, h);
  for (std::int64_t begin = 0, at = 0; begin < width; begin += std::min(group, width), ++at)
    store_codes(row, of, kAddRmsNormQuantGroupWeight, h, begin,
                begin + std::min(group, width - begin), at);
  store_hidden(row, 2, h);
}

}  // namespace dlblas::norm
