// The oracles of rms_norm with 8-bit results: y as in norm_ref.hpp, but never rounded, then scales
// and codes as in quant_ref.hpp. Errors, in units u = 2^-24:
//   R, common to all of a row: that of its root (RowSquares); 2, half of the mean's roundings from
// 1/C, its product, eps and their sum; and 2 of the root itself. A scale computed from y contains
// R, so it cancels in y / scale, unless the scale is the smallest one; it is allowed there, too.
//   e, each y's own: 3 for x · rstd, weight + offset and the product, and 1 of the offset for its
// rounding to f32; below 2^-126 roundings are absolute.
// A scale has an error of R, relative, plus the largest e. A quotient has 5 roundings of its own
// (quant_ref.hpp), R, the part of its scale's error that comes from e, and its own e. Undefined:
// rows whose squares f32 cannot hold, as kernels scale them. Read next: ops/common/quant_ref.hpp,
// rms_norm_quant.hpp.
#pragma once

#include "ops/common/quant_ref.hpp"
#include "ops/norm/layer_norm_moments.hpp"
#include "ops/norm/norm_ref.hpp"

namespace dlblas::norm {

enum CodesResult : int { kCodesQ, kCodesScale };

/// What the codes of a row are computed from.
struct CodesRow {
  double rstd, offset, common;  // common: R, times u
  bool lost;                    // f32 cannot hold its squares

  /// y of h with a weight; infinite where f32 is.
  double normed(double h, double weight) const {
    const double y = h * rstd * (weight + offset);
    return std::isinf(round_to(DType::kF32, y)) ? std::copysign(infinity(), y) : y;
  }
  double off(double h, double weight) const {
    const double size = std::abs(h * rstd) + 0x1p-126;
    return kRounding * size * (3 * std::abs(weight) + 4 * std::abs(offset)) + 0x1p-149;
  }
};

template <typename Row, typename Hidden>
CodesRow codes_row(const Row& row, const Hidden& h) {
  const std::int64_t width = row.size(kC);
  const double eps = row.scalar(kEps), scale = layer_norm_scale(eps);
  const auto sums = row.template sums<3>(width, [&](auto c, double* terms) {
    const double v = h(c), square = v * v;
    terms[0] = square, terms[1] = square * square, terms[2] = v != 0;
  });
  const RowSquares squares = {sums.of[0], sums.of[1], sums.of[2]};
  const double with_eps = squares.sum / static_cast<double>(width) + eps;
  CodesRow made;
  made.rstd = 1 / std::sqrt(with_eps);
  made.offset = row.scalar(kWeightOffset);
  made.common = (4 + squares.root_error(width)) * kRounding;
  const double held = squares.sum * scale * scale;
  made.lost = (std::isfinite(squares.sum) && held >= 0x1p126) ||
              (with_eps > 0 && with_eps * scale * scale < 0x1p-101);
  return made;
}

template <typename Row>
void store_normed_code(Row& row, const CodesRow& of, std::int64_t c, double y, double scale,
                       double own, double share) {
  const DType type = row.result_dtype(kCodesQ);
  const double quotient = y / scale;
  const double rounded = quant::kQuotientRoundings * kRounding + of.common + share;
  if (of.lost)
    row.store(kCodesQ, c, quant::code_of(type, quotient), -1);
  else
    quant::store_code(row, type, c, quotient, std::abs(quotient) * rounded + own / scale);
}

/// Columns [begin, end) of h(c): codes, and the scale, column `at`; `weight`: the tensor's
/// position.
template <typename Row, typename Hidden>
void store_codes(Row& row, const CodesRow& of, int weight, const Hidden& h, std::int64_t begin,
                 std::int64_t end, std::int64_t at) {
  const auto y = [&](auto c) { return of.normed(h(c), row.load_column(weight, c)); };
  const auto own = [&](auto c) { return of.off(h(c), row.load_column(weight, c)); };
  const double amax = row.max(end - begin, [&](auto c) { return std::abs(y(begin + c)); });
  const double most = row.max(end - begin, [&](auto c) { return own(begin + c); });
  const double scale = quant::scale_of(amax, row.result_dtype(kCodesQ));
  const bool plain = std::isfinite(amax) && amax > 0;
  const double off = plain ? (amax * of.common + most) / kRounding : 0;
  // f32 may have nothing but zeros here, thus a scale of 1: the scale is not judged.
  const bool zeros = plain && amax <= 2 * most;
  row.store(kCodesScale, at, scale,
            of.lost || zeros ? -1 : off / quant::largest_of(row.result_dtype(kCodesQ)));
  const double share = plain && scale > 0x1p-126 ? most / amax : 0;  // the least one is exact
  row.each(end - begin, [&](auto c) {
    store_normed_code(row, of, begin + c, y(begin + c), scale, own(begin + c), share);
  });
}

/// The same with a given scale; `scale` is the tensor's position.
template <typename Row, typename Hidden>
void store_static_codes(Row& row, const CodesRow& of, int weight, int scale, const Hidden& h) {
  row.each(row.size(kC), [&](auto c) {
    const double w = row.load_column(weight, c);
    store_normed_code(row, of, c, of.normed(h(c), w), row.value(scale), of.off(h(c), w), 0);
  });
}

}  // namespace dlblas::norm
