// The oracle of causal_conv1d_batch: a row of y, or of the state, is one channel of one sequence.
// Read next: ops/ssm/conv_ref.hpp.
#pragma once

#include "ops/ssm/conv_ref.hpp"

namespace dlblas::ssm {

enum ConvBatchLetter : int { kConvBatch, kConvC, kConvL, kConvK };

template <typename Row>
void causal_conv1d_batch_row(Row& row) {
  const std::int64_t at = row.index(), taps = row.size(kConvK), length = row.size(kConvL);
  row.each(length, [&](auto t) { conv::store_y(row, at, at % row.size(kConvC), at, 0, taps, t); });
  if (row.has(conv::kState)) conv::store_state(row, at, at, 0, length, taps);
}

}  // namespace dlblas::ssm
