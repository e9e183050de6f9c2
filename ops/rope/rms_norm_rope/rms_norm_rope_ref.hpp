// The oracle of rms_norm_rope, in f64: n = x · weight / √(mean of all heads' x² + eps), then pairs
// rotated by the first half of the token's tables.
// The error it allows, in units u = 2^-24: n has the 6 roundings of a norm and the error of its sum
// (ops/common/mean_square.hpp); each product adds one, and so does their sum, whose rounding is the
// store's in f32. Undefined is what f32 sums cannot hold, as kernels scale it. Read next:
// ops/rope/rotation_ref.hpp, rms_norm_rope_program.hpp.
#pragma once

#include "ops/common/mean_square.hpp"

namespace dlblas::rope {

enum NormRopeTensor : int { kNormRopeX, kNormRopeWeight, kNormRopeCos, kNormRopeSin };
enum NormRopeLetter : int { kNormRopeT, kNormRopeH, kNormRopeDh };

template <typename Row>
void rms_norm_rope_row(Row& row) {
  const std::int64_t heads = row.size(kNormRopeH), pairs = row.size(kNormRopeDh);
  const std::int64_t token = row.index() / heads, head = row.index() % heads;
  const std::int64_t channels = 2 * pairs, width = heads * channels;
  const auto root = norm::root_mean_square(row, width, row.scalar(0), [&](auto c) {
    return row.load_row(kNormRopeX, token * heads + c / channels, c % channels);
  });
  const auto normed = [&](auto c) {
    return row.load(kNormRopeX, c) * root.factor * row.load_row(kNormRopeWeight, head, c);
  };
  row.each(pairs, [&](auto i) {
    const auto h = i + pairs;
    const double cos = row.load_row(kNormRopeCos, token, i);
    const double sin = row.load_row(kNormRopeSin, token, i);
    const double a = normed(i) * cos, b = normed(h) * sin;
    const double c = normed(h) * cos, d = normed(i) * sin;
    // Below 2^-126 roundings of f32 are absolute.
    const double least = 0x1p-126 * (1 + (std::abs(row.load_row(kNormRopeWeight, head, i)) +
                                          std::abs(row.load_row(kNormRopeWeight, head, h)) + 1) *
                                             (std::abs(cos) + std::abs(sin)));
    const auto off = [&](double p, double q) {
      return root.lost ? -1 : (root.roundings + 2) * (std::abs(p) + std::abs(q) + least);
    };
    row.store(0, i, a - b, off(a, b));
    row.store(0, h, c + d, off(c, d));
  });
}

}  // namespace dlblas::rope
