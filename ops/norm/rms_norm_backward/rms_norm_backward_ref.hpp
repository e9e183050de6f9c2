// The oracle of rms_norm_backward, in f64:
//   r = 1/sqrt(mean_C(x²) + eps), n = x·r, g = dy·(weight + weight_offset), s = mean_C(g·n)
//   dx = r·(g − n·s) + dresidual       dweight = Σ_T dy·n, n rounded first with cast_before_weight
// (the derivative of that rounding is taken as 1, so dx does not depend on it). dweight has no
// rows: it is computed when row 0 is requested, from all rows of x and dy.
//
// The error a kernel may have, in roundings u = 2^-24. A = |weight| + |offset|, G = |dy|·A.
//   r: e = 5 and the error of the sum of squares, as in norm_ref.hpp; n: e + 1; g: 2
//   s: the random walk of a sum of g·x along chains of at most sum_chain(C) terms, as in
//       device/oracle/sum_error.hpp; then, relative to |s|, 3 for g and the product, e for r, and
//       3 for the mean and its product with r
//   n·s: the error of s times |n|, and e + 2 of |n·s|; then dx: e + 2 of r·|g − n·s| for the
//       difference and the product with r, and 1 of |dx| for the addition of dresidual
//   dweight: at most e + 2 of each |dy·n|. These errors differ from row to row and walk: twice the
//       root of their sum of squares. But those from equal squares in a row, and 1 more, may have
//       one sign and add up. Then the walk of a sum of T terms: kernels add at most
//       kMaxRowsInF32 terms in f32, and those sums in f64. Read next: ops/norm/norm_ref.hpp,
// ops/common/oracle_text.hpp.
#pragma once

#include "ops/norm/norm_ref.hpp"

namespace dlblas::norm {
namespace backward {

/// Positions of the tensors in the schema.
enum Tensor : int { kDy, kX, kWeight, kDresidual, kDx, kDweight };
enum Result : int { kResultDx, kResultDweight };

/// The most terms of dweight that a kernel adds in f32, one after the other; it adds those sums in
/// f64. So the error of dweight does not grow with the batch. Part of the oracle's bound.
inline constexpr int kMaxRowsInF32 = 1024;

inline constexpr double kTiny = 0x1p-126;  // below, roundings of f32 are absolute
/// Roundings of r, beside those of its sum.
inline constexpr double kRoot = kNormRoundings - 1;

/// r of a row, and the roundings of its sum: those of equal squares, and the random walk.
struct Scale {
  double r, alike, walk;
};
inline double walk_of(std::int64_t width) { return RowSquares().root_error(width); }
template <typename Row>
Scale scale_of(const Row& row, std::int64_t width) {
  const auto sums = row.template sums<3>(width, [&](auto c, double* terms) {
    const double v = row.load(kX, c), square = v * v;
    terms[0] = square, terms[1] = square * square, terms[2] = v != 0;
  });
  const RowSquares squares = {sums.of[0], sums.of[1], sums.of[2]};
  const double r = 1 / std::sqrt(squares.sum / static_cast<double>(width) + row.scalar(kEps));
  const double walk = walk_of(width);
  return {r, squares.root_error(width) - walk, walk};
}

template <typename Row>
void dx_of_row(Row& row) {
  const std::int64_t width = row.size(kC);
  const double n = static_cast<double>(width), offset = held_offset(row.scalar(kWeightOffset));
  const Scale scale = scale_of(row, width);
  const auto weight = [&](auto c) { return row.has(kWeight) ? row.load_column(kWeight, c) : 1.0; };
  const auto factor = [&](auto c) { return weight(c) + offset; };
  const auto normed = [&](auto c) { return row.load(kX, c) * scale.r; };
  const SumWalk products =
      row.sum_walk(width, [&](auto c) { return row.load(kDy, c) * factor(c) * normed(c); });
  // Five more for the additions across lanes.
  const auto chain = static_cast<std::int64_t>(sum_chain(width)) + 6;
  const SumModel model = sum_model(std::min(width, chain), false);
  const double mean = products.sum() / n, root = kRoot + scale.alike + scale.walk;
  const double mean_error = sum_error(model, products.sizes()) / n + (6 + root) * std::abs(mean) +
                            (sum_chain(width) + 16) * kTiny;
  row.each(width, [&](auto c) {
    const double dy = row.load(kDy, c), g = dy * factor(c), x = normed(c);
    const double size = std::abs(dy) * (std::abs(weight(c)) + std::abs(offset)) + kTiny;
    const double difference = g - x * mean;
    const double dx = scale.r * difference + (row.has(kDresidual) ? row.load(kDresidual, c) : 0.0);
    const double magnitude =
        scale.r * (3 * size + (root + 2) * (std::abs(difference) + std::abs(x * mean)) +
                   (std::abs(x) + kTiny) * mean_error) +
        std::abs(dx) + 8 * kTiny;
    row.store_as_is(kResultDx, c, overflowed(row.result_dtype(kResultDx), dx, magnitude),
                    magnitude);
  });
}

template <typename Row>
void dweight_of_columns(Row& row) {
  const std::int64_t rows = row.size(kT);
  const DType dtype = row.result_dtype(kResultDx);
  const bool cast = row.integer(kCastBeforeWeight) != 0 && dtype != DType::kF32;
  const double random = kRoot + walk_of(row.size(kC)) + 2;
  const SumModel model = sum_model(std::min<std::int64_t>(rows, kMaxRowsInF32), false);
  row.each(row.size(kC), [&](auto c) {
    SumWalk products;
    double worst = 0, alike = 0, squares = 0, rest = 0;
    for (std::int64_t t = 0; t < rows; ++t) {
      const double own = row.kept(2 * t + 1), error = random + own;
      const double dy = row.load_row(kDy, t, c), gradient = std::abs(dy);
      double n = row.load_row(kX, t, c) * row.kept(2 * t);
      if (cast) {  // one step of the dtype, where the kernel's n may be beyond a tie
        if (may_flip(dtype, n, (std::abs(n) + kTiny) * error * kRounding))
          rest += gradient * spacing(dtype, n) / kRounding;
        n = round_to(dtype, n);
      }
      const double size = gradient * std::abs(n);
      products.add(dy * n);
      worst += size * error;
      alike += size * (own + 1);
      squares += size * random * size * random;
      rest += (gradient * error + 1) * kTiny;
    }
    const double magnitude =
        sum_error(model, products.sizes()) + rest + std::min(worst, 2 * std::sqrt(squares) + alike);
    row.store_as_is(kResultDweight, c,
                    overflowed(row.result_dtype(kResultDweight), products.sum(), magnitude),
                    magnitude);
  });
}

}  // namespace backward

/// What dweight needs of each row: r, and the row's own roundings.
template <typename Row>
void rms_norm_backward_shared(Row& row) {
  const backward::Scale scale = backward::scale_of(row, row.size(kC));
  row.keep(2 * row.index(), scale.r);
  row.keep(2 * row.index() + 1, scale.alike);
}
template <typename Row>
void rms_norm_backward_row(Row& row) {
  if (row.index() < row.size(kT)) backward::dx_of_row(row);
  if (row.index() == 0) backward::dweight_of_columns(row);
}

#if !defined(__CUDACC_RTC__)
inline kernels::SharedSize rms_norm_backward_size(const Args& args) {
  return {args.letters[kT], 2 * args.letters[kT]};
}
#endif

}  // namespace dlblas::norm
