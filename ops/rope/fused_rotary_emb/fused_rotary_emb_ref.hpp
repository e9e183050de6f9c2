// The oracle of fused_rotary_emb, in f64: angle = position / scaling · inv_freq, then pairs rotated
// by its cosine and sine.
// The error it allows, in units u = 2^-24. The rounding error of the angle grows with the angle: a
// position below 2^24 is exact in f32, so is the quotient if scaling is 1, and only the product is
// rounded: |angle|·u; each of position, scaling and quotient that is not exact adds as much. An
// error of δ in the angle changes a cosine by δ·|sin| + δ²/2 and a sine by δ·|cos| + δ²/2, and
// neither by more than 2. Both functions are good to 2 ulp, which are 4u. The rotation adds its own
// roundings. Angles above 2^100 are undefined: f32 may not hold them. Read next:
// ops/rope/rotation_ref.hpp, fused_rotary_emb_program.hpp.
#pragma once

#include "ops/rope/rotation_ref.hpp"

namespace dlblas::rope {

enum FusedRotaryTensor : int { kFusedQ, kFusedK, kFusedPositions, kFusedFrequency };
enum FusedRotaryLetter : int { kFusedT, kFusedH, kFusedDh, kFusedHkv };

/// A cosine and a sine, and the errors a kernel's may have, in units u.
struct MadeRotation {
  double cos, sin, cos_error, sin_error;
  bool lost;
};

DLBLAS_ORACLE MadeRotation made_rotation(double position, double scaling, double frequency) {
  const double angle = position / scaling * frequency, size = std::abs(angle);
  const double roundings =
      1 + (scaling != 1 ? 2 : 0) + (std::abs(position) > 0x1p24 ? 1 : 0) + 0x1p-20;
  const double off = size * roundings * kRounding + 0x1p-126;
  const double cos = ::cos(angle), sin = ::sin(angle);  // NVRTC has no other names
  const auto error = [&](double value, double slope) {
    const double moved = std::min(2.0, off * std::abs(slope) + off * off / 2);
    return (moved + 4 * kRounding * (std::abs(value) + moved)) / kRounding;
  };
  return {cos, sin, error(cos, sin), error(sin, cos), std::isfinite(angle) && size > 0x1p100};
}

template <typename Row>
void turn_made(Row& row, int x, int heads, int result) {
  const std::int64_t pairs = row.size(kFusedDh), all = row.size(heads);
  if (row.index() >= row.size(kFusedT) * all) return;
  const double position = row.load_value(kFusedPositions, row.index() / all);
  const std::int64_t style = row.integer(1);
  const bool reads_pairs = style != kNeox, writes_pairs = style == kInterleaved;
  row.each(pairs, [&](auto i) {
    const auto j = i + pairs;
    const MadeRotation made =
        made_rotation(position, row.scalar(0), row.load_column(kFusedFrequency, i));
    const double low = row.load(x, reads_pairs ? 2 * i : i);
    const double high = row.load(x, reads_pairs ? 2 * i + 1 : j);
    const double a = low * made.cos, b = high * made.sin;
    const double c = high * made.cos, d = low * made.sin;
    const auto off = [&](double of_cos, double of_sin) {
      return made.lost ? -1 : of_cos * made.cos_error + of_sin * made.sin_error;
    };
    const double low_off = off(std::abs(low), std::abs(high));
    const double high_off = off(std::abs(high), std::abs(low));
    const auto l = writes_pairs ? 2 * i : i, h = writes_pairs ? 2 * i + 1 : j;
    row.store(result, l, a - b, made.lost ? -1 : low_off + std::abs(a) + std::abs(b));
    row.store(result, h, c + d, made.lost ? -1 : high_off + std::abs(c) + std::abs(d));
  });
}

template <typename Row>
void fused_rotary_emb_row(Row& row) {
  turn_made(row, kFusedQ, kFusedH, 0);
  turn_made(row, kFusedK, kFusedHkv, 1);
}

}  // namespace dlblas::rope
