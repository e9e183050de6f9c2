// The oracle of causal_conv1d_varlen: a row of y is a channel, a row of the state one channel of
// one sequence. Tokens of no sequence are undefined. Read next: ops/ssm/conv_ref.hpp.
#pragma once

#include "ops/ssm/conv_ref.hpp"

namespace dlblas::ssm {

enum ConvVarlenLetter : int { kVarlenC, kVarlenT, kVarlenK, kVarlenS };

template <typename Row>
void causal_conv1d_varlen_row(Row& row) {
  const std::int64_t at = row.index(), taps = row.size(kVarlenK), tokens = row.size(kVarlenT);
  const std::int64_t channels = row.size(kVarlenC), sequences = row.size(kVarlenS);
  const auto offset = [&](std::int64_t s) {
    return static_cast<std::int64_t>(row.load_column(conv::kOffsets, s));
  };
  if (at < channels)
    row.each(tokens, [&](auto t) {
      for (std::int64_t s = 0; s < sequences; ++s)
        if (t >= offset(s) && t < offset(s + 1))
          return conv::store_y(row, at, at, s * channels + at, offset(s), taps, t);
      row.store(0, t, 0, -1);
    });
  if (row.has(conv::kState) && at < sequences * channels)
    conv::store_state(row, at % channels, at, offset(at / channels), offset(at / channels + 1),
                      taps);
}

}  // namespace dlblas::ssm
