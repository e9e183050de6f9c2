// The oracle of dequantize_channel: y = q · scale, in f64. A kernel's product is rounded once to
// f32 and once to y's type. Read next: ops/common/oracle_text.hpp, dequantize_channel_program.hpp.
#pragma once

#include "ops/common/oracle_text.hpp"

namespace dlblas::quant {

enum DequantizeChannelTensor : int {
  kDequantizeChannelQ,
  kDequantizeChannelScale,
  kDequantizeChannelY
};
enum DequantizeChannelLetter : int { kDequantizeChannelT, kDequantizeChannelK };

template <typename Row>
void dequantize_channel_row(Row& row) {
  row.each(row.size(kDequantizeChannelK), [&](auto c) {
    const double y = row.load(kDequantizeChannelQ, c) * row.load_column(kDequantizeChannelScale, c);
    row.store(0, c, y, std::abs(y));
  });
}

}  // namespace dlblas::quant
