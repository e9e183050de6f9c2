// The oracle of l2_norm: y = x / max(√Σx², eps), in f64.
// The error it allows, in units u = 2^-24: the root's (ops/common/mean_square.hpp) plus four: 2 for
// an approximate root, 1 for the product with x, and 1 of second order. Rounding eps² adds half a
// unit to a root, less than the root's own error. Read next: ops/common/mean_square.hpp,
// l2_norm_program.hpp.
#pragma once

#include "ops/common/mean_square.hpp"

namespace dlblas::norm {

enum L2NormTensor : int { kL2NormX };
enum L2NormLetter : int { kL2NormT, kL2NormC };
enum L2NormScalar : int { kL2NormEps };

template <typename Row>
void l2_norm_row(Row& row) {
  const auto width = row.size(kL2NormC);
  const auto x = [&](auto c) { return row.load(kL2NormX, c); };
  const auto sums = row.template sums<3>(width, [&](auto c, double* terms) {
    const double v = x(c), square = v * v;
    terms[0] = square, terms[1] = square * square, terms[2] = v != 0;
  });
  const RowSquares squares = {sums.of[0], sums.of[1], sums.of[2]};
  const double norm = std::sqrt(squares.sum), eps = row.scalar(kL2NormEps);
  const double below = norm < eps ? eps : norm;
  const double roundings = 4 + squares.root_error(width);
  row.each(width, [&](auto c) {
    const double value = x(c) / below;
    row.store(0, c, value, roundings * (std::abs(value) + 0x1p-126));
  });
}

}  // namespace dlblas::norm
