// The 8-bit floats as bits: f8e4m3 (no infinity, largest 448), f8e5m2 (largest 57344), and f8e8m0,
// an unsigned power of two, 2^(code - 127), rounded to the nearest with ties up. In: bits. Out:
// bits of the equal f32; and back, rounded to nearest even and saturated, as cvt.rn.satfinite does:
// values beyond the largest number, infinity included, become it; NaN stays NaN. One source for the
// host and NVRTC. Read next: core/element.hpp, device/numeric.cuh.
#pragma once

#include "device/types.hpp"

namespace dlblas {

namespace float8 {

/// Exact. kMantissa bits of fraction; kInfinity: the top exponent encodes Inf and NaN, as in IEEE.
template <int kMantissa, int kBias, bool kInfinity>
constexpr uint32_t to_f32(uint32_t code) {
  const uint32_t sign = (code & 0x80u) << 24, magnitude = code & 0x7fu;
  const uint32_t exponent = magnitude >> kMantissa;
  uint32_t fraction = magnitude & ((1u << kMantissa) - 1);
  if (kInfinity && magnitude >= 0x7cu) return sign | 0x7f800000u | fraction << (23 - kMantissa);
  if (!kInfinity && magnitude == 0x7fu) return sign | 0x7fc00000u;
  if (exponent > 0) return sign | (exponent + 127 - kBias) << 23 | fraction << (23 - kMantissa);
  if (fraction == 0) return sign;
  uint32_t power = 128 - kBias;  // f32 has the denormals as normal numbers
  for (; fraction >> kMantissa == 0; fraction <<= 1) --power;
  return sign | power << 23 | (fraction & ((1u << kMantissa) - 1)) << (23 - kMantissa);
}

template <int kMantissa, int kBias, uint32_t kLargest>
constexpr uint32_t from_f32(uint32_t bits) {
  const uint32_t sign = bits >> 24 & 0x80u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7fu;
  const int32_t exponent = static_cast<int32_t>(magnitude >> 23) - 127 + kBias;  // of the code
  const int32_t shift = 23 - kMantissa + (exponent < 1 ? 1 - exponent : 0);
  if (shift > 24) return sign;  // below half of the smallest number
  const uint32_t fraction = (magnitude & 0x7fffffu) | 0x800000u;
  const uint32_t rounded = (fraction + (1u << (shift - 1)) - 1 + (fraction >> shift & 1u)) >> shift;
  // The leading one of a normal fraction adds one to the exponent.
  const uint32_t code =
      exponent < 1 ? rounded : (static_cast<uint32_t>(exponent - 1) << kMantissa) + rounded;
  return sign | (code < kLargest ? code : kLargest);
}

}  // namespace float8

constexpr uint32_t f8e4m3_to_f32_bits(uint32_t code) { return float8::to_f32<3, 7, false>(code); }
constexpr uint32_t f8e5m2_to_f32_bits(uint32_t code) { return float8::to_f32<2, 15, true>(code); }
constexpr uint32_t f32_bits_to_f8e4m3(uint32_t bits) { return float8::from_f32<3, 7, 0x7e>(bits); }
constexpr uint32_t f32_bits_to_f8e5m2(uint32_t bits) { return float8::from_f32<2, 15, 0x7b>(bits); }

constexpr uint32_t f8e8m0_to_f32_bits(uint32_t code) {
  return code == 255 ? 0x7fc00000u : code == 0 ? 0x400000u : code << 23;
}
constexpr uint32_t f32_bits_to_f8e8m0(uint32_t bits) {
  const uint32_t magnitude = bits & 0x7fffffffu, fraction = magnitude & 0x7fffffu;
  if (magnitude > 0x7f800000u) return 255;
  if (magnitude < 0x800000u) return fraction >= 0x600000u;  // below 2^-126
  const uint32_t code = (magnitude >> 23) + (fraction >= 0x400000u);
  return code < 254 ? code : 254;
}

}  // namespace dlblas
