// The oracles of rotations before latent attention, in f64, and the error they allow, in units u =
// 2^-24: each product and each sum of two rounds once, as in ops/rope/rotation_ref.hpp. Read next:
// partial_rotary_heads/partial_rotary_heads_ref.hpp.
#pragma once

#include "ops/rope/rotation_ref.hpp"

namespace dlblas::rope {

/// A token's cosines and sines, in tensors [*T, 2Dh]: two halves of `pairs` columns; or in [*T,
/// Dh], one half that serves as both.
template <typename Row>
struct LatentAngles {
  const Row& row;
  int cos_at, sin_at;
  std::int64_t token, pairs;
  double cos(std::int64_t i) const { return row.load_row(cos_at, token, i % row.width(cos_at)); }
  double sin(std::int64_t i) const { return row.load_row(sin_at, token, i % row.width(sin_at)); }
};

/// Rotates pair i, (x0, x1), into channels `first + i` and `first + pairs + i` of a result.
template <typename Row>
void turn_pair(Row& row, const LatentAngles<Row>& angles, int result, std::int64_t first,
               std::int64_t i, double x0, double x1) {
  const std::int64_t h = angles.pairs + i;
  const double a = x0 * angles.cos(i), b = x1 * angles.sin(i);
  const double c = x1 * angles.cos(h), d = x0 * angles.sin(h);
  row.store(result, first + i, a - b, std::abs(a) + std::abs(b));
  row.store(result, first + h, c + d, std::abs(c) + std::abs(d));
}
/// Rotates pair i back into channels `first + 2i` and `first + 2i + 1`; y has errors of `off`.
template <typename Row>
void turn_back(Row& row, const LatentAngles<Row>& angles, int result, std::int64_t first,
               std::int64_t i, const double (&y)[2], const double (&off)[2]) {
  const std::int64_t h = angles.pairs + i;
  const double cos[2] = {angles.cos(i), angles.cos(h)}, sin[2] = {angles.sin(i), angles.sin(h)};
  const auto size = [](double a, double b) { return std::abs(a) + std::abs(b); };
  row.store(result, first + 2 * i, y[0] * cos[0] + y[1] * sin[1],
            size(y[0] * cos[0], y[1] * sin[1]) + size(off[0] * cos[0], off[1] * sin[1]));
  row.store(result, first + 2 * i + 1, y[1] * cos[1] - y[0] * sin[0],
            size(y[1] * cos[1], y[0] * sin[0]) + size(off[1] * cos[1], off[0] * sin[0]));
}

}  // namespace dlblas::rope
