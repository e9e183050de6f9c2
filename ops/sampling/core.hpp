// What sampling computes identically on CPUs and GPUs, in integers, so that neither the order of
// additions nor the number of threads changes a bit: keys in the order of floats, masses as
// multiples of 2^-40 of the largest, and counter-based random numbers. Read next:
// ops/sampling/README.md, sampling.cuh, sampling.cpp.
#pragma once

#include "device/types.hpp"

namespace dlblas::sampling {

/// Bins of a radix digit.
inline constexpr int kBins = 256;
/// The mass of a row's largest element. 2^23 of them fit into 64 bits.
inline constexpr float kWhole = 0x1p40f;

/// A key in the order of finite floats; the caller has turned −0 into +0. Never 0.
constexpr uint32_t key_of(uint32_t bits) {
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
/// Digits below this shift are the same in all keys of one type and prefix.
constexpr int lowest_shift(DType type) {
  return type == DType::kBF16 ? 16 : type == DType::kF16 ? 8 : 0;
}

/// Philox4x32-10 (Salmon et al., 2011): 64 bits from seed, offset and row.
constexpr uint64_t random_bits(uint64_t seed, uint64_t offset, uint64_t row) {
  auto k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  uint32_t c[4] = {static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32),
                   static_cast<uint32_t>(row), static_cast<uint32_t>(row >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * c[0], b = uint64_t{0xCD9E8D57u} * c[2];
    const uint32_t c1 = c[1], c3 = c[3];
    c[0] = static_cast<uint32_t>(b >> 32) ^ c1 ^ k0;
    c[1] = static_cast<uint32_t>(b);
    c[2] = static_cast<uint32_t>(a >> 32) ^ c3 ^ k1;
    c[3] = static_cast<uint32_t>(a);
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return uint64_t{c[1]} << 32 | c[0];
}

/// The settings of one row. The defaults, for absent tensors, leave nothing out.
struct RowRule {
  float temperature = 1;  // 0: the first of the largest
  int64_t top_k = 0;      // 0 and below: all
  float top_p = 1, min_p = 0;

  constexpr bool greedy() const { return temperature == 0; }
  /// False if the temperature is below 0, or NaN.
  constexpr bool has_temperature() const { return temperature >= 0; }
  constexpr bool cuts_k(int64_t width) const { return top_k > 0 && top_k < width; }
  constexpr bool cuts_p() const { return top_p < 1; }
  constexpr bool cuts_min() const { return min_p > 0; }
};

}  // namespace dlblas::sampling
