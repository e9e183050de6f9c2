// What the oracles of cross_entropy_rows and its gradient share: positions of tensors, capped
// logits and their error bound, in units u = 2^-24.
// A soft cap computes cap·tanh(x / cap). The quotient is a product with a rounded inverse and has
// an error of 2 relative to itself, which changes tanh by no more, relative to itself; tanh is
// accurate to 8 ulp, which are 16; the product rounds once more: 19 of the result. Read next:
// ops/common/softmax_sum.hpp, cross_entropy_rows/cross_entropy_rows_ref.hpp.
#pragma once

#include "ops/common/softmax_sum.hpp"

namespace dlblas::loss {

enum CrossEntropyLetter : int { kCrossT, kCrossC };
enum CrossEntropyArgument : int { kIgnoreIndex, kSmoothing, kSoftcap };

/// A row's logits under the cap, its target, and weights of classes.
template <typename Row>
struct CrossEntropyRow {
  const Row& row;
  int logits, target_at, weight_at, weight_sum_at;

  std::int64_t width() const { return row.size(kCrossC); }
  double smoothing() const { return row.scalar(kSmoothing); }
  double share() const { return smoothing() / static_cast<double>(width()); }
  double cap() const { return row.scalar(kSoftcap); }
  double x(std::int64_t c) const {
    const double v = row.load(logits, c);
    return cap() != 0 ? cap() * std::tanh(v / cap()) : v;
  }
  double x_off(std::int64_t c) const { return cap() != 0 ? 19 * std::abs(x(c)) : 0; }
  std::int64_t target() const {
    const std::int64_t columns = row.width(target_at);
    return static_cast<std::int64_t>(
        row.load_row(target_at, row.index() / columns, row.index() % columns));
  }
  bool ignored() const { return target() == row.integer(kIgnoreIndex); }
  bool there() const { return target() >= 0 && target() < width(); }
  double weight(std::int64_t c) const {
    return row.has(weight_at) ? row.load_column(weight_at, c) : 1;
  }
  double weight_sum() const {
    return row.has(weight_sum_at) ? row.value(weight_sum_at) : static_cast<double>(width());
  }
};

}  // namespace dlblas::loss
