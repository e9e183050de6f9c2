// Compares an i64 with an oracle's f64, which is exact for integers up to 2^53: beyond, the
// oracle's magnitude holds what its value leaves out. Read by the host and NVRTC. Read next:
// src/tuner/verify.cpp, device/tuner_compare.cuh.
#pragma once

#include "device/types.hpp"

namespace dlblas {

/// f64 holds every integer below this exactly.
inline constexpr double kWholeBelow = 0x1p53;

constexpr bool is_split(double value) {
  return (value >= kWholeBelow && value < 0x1p63) || (value <= -kWholeBelow && value >= -0x1p63);
}

/// The i64 of a split value and the rest that it leaves out. A rest that is not a part of the
/// distance to the next f64 counts as 0.
constexpr int64_t whole_of(double value, double rest) {
  const bool part = rest > 0 && rest < 1024;
  return static_cast<int64_t>(value) + static_cast<int64_t>(part ? rest : 0);
}

constexpr double distance_of(int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  return static_cast<double>(a > b ? x - y : y - x);
}

/// out − ref|: 0 only if they are the same number. NaN where the reference is NaN.
constexpr double whole_distance(int64_t out, double value, double rest) {
  if (is_split(value)) return distance_of(out, whole_of(value, rest));
  const double away = static_cast<double>(out) - value;
  const double size = away < 0 ? -away : away;
  return size == 0 && (value >= kWholeBelow || value <= -kWholeBelow) ? 1 : size;
}

}  // namespace dlblas
