// The oracle of dequantize_group: y = q · scale, in f64. A kernel's product is rounded once to f32
// and once to y's type. Read next: ops/common/oracle_text.hpp, dequantize_group_program.hpp.
#pragma once

#include "ops/common/oracle_text.hpp"

namespace dlblas::quant {

enum DequantizeTensor : int { kDequantizeQ, kDequantizeScale, kDequantizeY };
enum DequantizeLetter : int { kDequantizeT, kDequantizeK, kDequantizeGroup };

template <typename Row>
void dequantize_group_row(Row& row) {
  const auto group = row.size(kDequantizeGroup);
  row.each(row.size(kDequantizeK), [&](auto c) {
    const double y = row.load(kDequantizeQ, c) * row.load(kDequantizeScale, c / group);
    row.store(0, c, y, std::abs(y));
  });
}

}  // namespace dlblas::quant
