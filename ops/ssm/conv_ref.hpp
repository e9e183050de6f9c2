// The oracle of causal convolutions, in f64, for one row. Error bounds, in units of 2^-24: the
// sum's, as of one chain (device/oracle/sum_error.hpp) of the terms that are not 0 (before a
// sequence without a state they are 0); silu's slope is at most 1.1, and its error is 16 of its
// argument (matmul_ref.hpp). Read next: conv.hpp.
#pragma once

#include "ops/common/oracle_text.hpp"

namespace dlblas::ssm {
namespace conv {

enum Tensor : int { kX, kWeight, kBias, kState, kOffsets };

/// A sequence's input at `token` of row x; before `begin`, the entry of row `state`, or 0.
template <typename Row>
double input(const Row& row, std::int64_t x, std::int64_t state, std::int64_t begin,
             std::int64_t taps, std::int64_t token) {
  if (token >= begin) return row.load_row(kX, x, token);
  return row.has(kState) ? row.load_row(kState, state, taps - 1 + token - begin) : 0.0;
}

/// Stores y of a row of x, at `token` of a sequence.
template <typename Row>
void store_y(Row& row, std::int64_t x, std::int64_t channel, std::int64_t state, std::int64_t begin,
             std::int64_t taps, std::int64_t token) {
  SumWalk walk;
  std::int64_t terms = 1;
  walk.add(row.has(kBias) ? row.load_column(kBias, channel) : 0);
  for (std::int64_t k = 0; k < taps; ++k) {
    const double term = row.load_row(kWeight, channel, k) *
                        input(row, x, state, begin, taps, token - (taps - 1) + k);
    walk.add(term), terms += term != 0;
  }
  const double sum = walk.sum();
  const double off = sum_error(sum_model(terms, false), walk.sizes()) + 2 * std::abs(sum);
  if (row.integer(0) == 0) return row.store(0, token, sum, off);
  const double y = sum / (1 + std::exp(-sum));
  row.store(0, token, std::isinf(sum) && sum < 0 ? sum * 0 : y, 1.1 * off + 16 * std::abs(sum));
}

/// Stores the state's row after a sequence [begin, end).
template <typename Row>
void store_state(Row& row, std::int64_t x, std::int64_t state, std::int64_t begin, std::int64_t end,
                 std::int64_t taps) {
  row.each(taps - 1, [&](auto tap) {
    const double v = end > begin ? input(row, x, state, begin, taps, end - (taps - 1) + tap)
                                 : row.load_row(kState, state, tap);
    row.store(1, tap, v, 0);
  });
}

}  // namespace conv
}  // namespace dlblas::ssm
