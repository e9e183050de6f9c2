// The oracle of rms_norm_rope, in f64: n = x · weight / √(mean of all heads' x² + eps), then pairs
// turned by the first half of the token's tables.
// The error it allows, in units u = 2^-24: n is off by the 6 roundings of a norm and what its sum
// brings (ops/mean_square.hpp), each product by one more, and so is their sum, which for f32 is
// the store's. What f32 sums cannot hold, as kernels scale it, is undefined. Read next:
// ops/rope/rotation_ref.hpp, rms_norm_rope_program.hpp.
#pragma once

#include "ops/mean_square.hpp"

namespace dlblas::rope {

enum NormRopeTensor : int { kNormRopeX, kNormRopeWeight, kNormRopeCos, kNormRopeSin };
enum NormRopeLetter : int { kNormRopeT, kNormRopeH, kNormRopeDh };

template <typename Row>
void rms_norm_rope_row(Row& row) {
  const std::int64_t heads = row.size(kNormRopeH), pairs = row.size(kNormRopeDh);
  const std::int64_t token = row.index() / heads, head = row.index() % heads;
  const std::int64_t channels = 2 * pairs, width = heads * channels;
  const double eps = row.scalar(0), scale = norm::layer_norm_scale(eps);
  const auto sums = row.template sums<3>(width, [&](auto c, double* terms) {
    const double v = row.load_row(kNormRopeX, token * heads + c / channels, c % channels);
    terms[0] = v * v, terms[1] = v * v * v * v, terms[2] = v != 0;
  });
  const norm::RowSquares squares = {sums.of[0], sums.of[1], sums.of[2]};
  const double mean = squares.sum / static_cast<double>(width) + eps;
  const double scaled = mean * scale * scale;
  const double most = std::max(squares.sum * scale * scale, scaled);
  const bool lost = (std::isfinite(most) && most >= 0x1p126) || scaled < 0x1p-101;
  const double factor = 1 / std::sqrt(mean);
  const double roundings = norm::kNormRoundings + squares.root_error(width) + 2;
  const auto normed = [&](auto c) {
    return row.load(kNormRopeX, c) * factor * row.load_row(kNormRopeWeight, head, c);
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
      return lost ? -1 : roundings * (std::abs(p) + std::abs(q) + least);
    };
    row.store(0, i, a - b, off(a, b));
    row.store(0, h, c + d, off(c, d));
  });
}

}  // namespace dlblas::rope
