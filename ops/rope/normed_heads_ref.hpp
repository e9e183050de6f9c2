// The oracles of heads that are normalised and rotated, in f64: n = x · weight / √(mean of the
// head's x² + eps), then pairs turned by a table's row cos ‖ sin; channels behind them stay n.
// The error they allow, in units u = 2^-24: n is off by the 6 roundings of a norm and what its sum
// brings (ops/mean_square.hpp), each product by one more, and so is their sum, which for f32 is
// the store's. What f32 sums cannot hold, as kernels scale it, is undefined. Read next:
// ops/rope/rotation_ref.hpp.
#pragma once

#include "ops/mean_square.hpp"

namespace dlblas::rope {

/// Row `row` of tensor x, a head, and the vector that it is multiplied by.
struct NormedHead {
  int x, weight, result;
  std::int64_t row;
};
struct TableRow {
  int tensor;
  std::int64_t row;
};

/// The row of `head.result`; of its channels the first 2·pairs are rotated.
template <typename Row>
void normed_head(Row& row, const NormedHead& head, const TableRow& table, std::int64_t pairs,
                 double eps, bool interleaved) {
  const std::int64_t width = row.width(head.x);
  const double scale = norm::layer_norm_scale(eps);
  const auto sums = row.template sums<3>(width, [&](auto c, double* terms) {
    const double v = row.load_row(head.x, head.row, c);
    terms[0] = v * v, terms[1] = v * v * v * v, terms[2] = v != 0;
  });
  const norm::RowSquares squares = {sums.of[0], sums.of[1], sums.of[2]};
  const double mean = squares.sum / static_cast<double>(width) + eps;
  const double scaled = mean * scale * scale;
  const double most = std::max(squares.sum * scale * scale, scaled);
  const bool lost = (std::isfinite(most) && most >= 0x1p126) || scaled < 0x1p-101;
  const double factor = 1 / std::sqrt(mean);
  const double roundings = norm::kNormRoundings + squares.root_error(width);
  const auto weight = [&](auto c) { return row.load_column(head.weight, c); };
  const auto normed = [&](auto c) {
    return row.load_row(head.x, head.row, c) * factor * weight(c);
  };
  // Below 2^-126 roundings of f32 are absolute.
  row.each(pairs, [&](auto i) {
    const auto l = interleaved ? 2 * i : i, h = interleaved ? 2 * i + 1 : i + pairs;
    const double cos = row.load_row(table.tensor, table.row, i);
    const double sin = row.load_row(table.tensor, table.row, pairs + i);
    const double a = normed(l) * cos, b = normed(h) * sin;
    const double c = normed(h) * cos, d = normed(l) * sin;
    const double least = 0x1p-126 * (1 + (std::abs(weight(l)) + std::abs(weight(h)) + 1) *
                                             (std::abs(cos) + std::abs(sin)));
    const auto off = [&](double p, double q) {
      return lost ? -1 : (roundings + 2) * (std::abs(p) + std::abs(q) + least);
    };
    row.store(head.result, l, a - b, off(a, b));
    row.store(head.result, h, c + d, off(c, d));
  });
  row.each(width - 2 * pairs, [&](auto i) {
    const auto c = 2 * pairs + i;
    const double value = normed(c), least = 0x1p-126 * (2 + std::abs(weight(c)));
    row.store(head.result, c, value, lost ? -1 : roundings * (std::abs(value) + least));
  });
}

}  // namespace dlblas::rope
