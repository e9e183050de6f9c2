// The oracles of heads that are normalised and rotated, in f64: n = x · weight / √(mean of the
// head's x² + eps), then pairs rotated by a table's row cos ‖ sin; channels after them stay n.
// The error they allow, in units u = 2^-24: n has the 6 roundings of a norm and the error of its
// sum (ops/mean_square.hpp); each product adds one, and so does their sum, whose rounding is the
// store's in f32. Undefined is what f32 sums cannot hold, as kernels scale it. Read next:
// ops/rope/rotation_ref.hpp.
#pragma once

#include "ops/mean_square.hpp"
#include "ops/rope/style.hpp"

namespace dlblas::rope {

/// A head, row `row` of tensor x, and the weight that it is multiplied by.
struct NormedHead {
  int x, weight, result;
  std::int64_t row;
  double scale = 1;  // that results are divided by; f8 saturates
};
struct TableRow {
  int tensor;
  std::int64_t row;
};

/// Stores the row of `head.result`; its first 2·pairs channels are rotated.
template <typename Row>
void normed_head(Row& row, const NormedHead& head, const TableRow& table, std::int64_t pairs,
                 double eps, std::int64_t style) {
  const std::int64_t width = row.width(head.x);
  if (table.row < 0)  // a token of a negative position: nothing writes it
    return row.each(width, [&](auto c) { row.store(head.result, c, 0, -1); });
  const auto x = [&](auto c) { return row.load_row(head.x, head.row, c); };
  const norm::RootMeanSquare root = norm::root_mean_square(row, width, eps, x);
  const auto weight = [&](auto c) { return row.load_column(head.weight, c); };
  const auto normed = [&](auto c) { return x(c) * root.factor * weight(c); };
  const DType type = row.result_dtype(head.result);
  const double most = float_traits(type).max;
  const auto put = [&](auto c, double value, double error) {
    value /= head.scale, error /= head.scale;
    if (head.scale != 1 && error >= 0) error += 2 * std::abs(value);  // the quotient's
    if (is_f8(type) && !std::isnan(value)) value = std::clamp(value, -most, most);
    row.store(head.result, c, value, error);
  };
  // Below 2^-126 roundings of f32 are absolute.
  const bool reads_pairs = style != kNeox, writes_pairs = style == kInterleaved;
  row.each(pairs, [&](auto i) {
    const auto l = reads_pairs ? 2 * i : i, h = reads_pairs ? 2 * i + 1 : i + pairs;
    const double cos = row.load_row(table.tensor, table.row, i);
    const double sin = row.load_row(table.tensor, table.row, pairs + i);
    const double a = normed(l) * cos, b = normed(h) * sin;
    const double c = normed(h) * cos, d = normed(l) * sin;
    const double least = 0x1p-126 * (1 + (std::abs(weight(l)) + std::abs(weight(h)) + 1) *
                                             (std::abs(cos) + std::abs(sin)));
    const auto off = [&](double p, double q) {
      return root.lost ? -1 : (root.roundings + 2) * (std::abs(p) + std::abs(q) + least);
    };
    put(writes_pairs ? 2 * i : i, a - b, off(a, b));
    put(writes_pairs ? 2 * i + 1 : i + pairs, c + d, off(c, d));
  });
  row.each(width - 2 * pairs, [&](auto i) {
    const auto c = 2 * pairs + i;
    const double value = normed(c), least = 0x1p-126 * (2 + std::abs(weight(c)));
    put(c, value, root.lost ? -1 : root.roundings * (std::abs(value) + least));
  });
}

}  // namespace dlblas::rope
