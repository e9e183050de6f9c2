// Element types (device/types.hpp): their names, DLPack codes, and the f16, bf16 and f8 conversions
// of the host code. In: nothing. Out: values that Problem, Schema and the references share.
// Conversions round to nearest even, keep NaN a NaN, and are exact towards f32.
// Read next: core/schema.hpp (dtype classes), core/problem.hpp.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "device/float8.hpp"

namespace dlblas {

inline constexpr int kNumDTypes = 13;

/// A set of dtypes, one bit each: what a schema's dtype class allows.
using DTypeSet = std::uint16_t;
constexpr DTypeSet set_of(DType t) { return static_cast<DTypeSet>(1u << static_cast<int>(t)); }
inline constexpr DTypeSet kFloats =
    set_of(DType::kF32) | set_of(DType::kF16) | set_of(DType::kBF16);

namespace detail {
struct DTypeRow {
  std::string_view name;
  std::uint8_t dlpack_code;  // DLDataTypeCode
  std::uint8_t lanes = 1;    // numbers per element
};
inline constexpr DTypeRow kDTypes[kNumDTypes] = {
    {"f32", 2}, {"f16", 2},     {"bf16", 4},     {"f8e4m3", 10}, {"f8e5m2", 12},
    {"i8", 0},  {"i32", 0},     {"i64", 0},      {"u8", 1},      {"bool", 6},
    {"f64", 2}, {"f8e8m0", 14}, {"f4x2", 17, 2},
};
}  // namespace detail

constexpr std::string_view name_of(DType t) {
  return t == DType::kAbsent ? "absent" : detail::kDTypes[static_cast<int>(t)].name;
}
constexpr std::uint8_t dlpack_code_of(DType t) {
  return detail::kDTypes[static_cast<int>(t)].dlpack_code;
}
constexpr std::uint8_t dlpack_lanes_of(DType t) {
  return detail::kDTypes[static_cast<int>(t)].lanes;
}
/// Bits of one lane.
constexpr std::uint8_t dlpack_bits_of(DType t) {
  return static_cast<std::uint8_t>(8 * size_of(t) / dlpack_lanes_of(t));
}
/// The dtype of a DLPack triple; kAbsent when the library has no such type. Packed numbers may also
/// come as one lane of a whole byte.
constexpr DType dtype_from_dlpack(int code, int bits, int lanes = 1) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const detail::DTypeRow& row = detail::kDTypes[i];
    const auto t = static_cast<DType>(i);
    if (row.dlpack_code == code && 8 * size_of(t) == bits * lanes &&
        (lanes == 1 || lanes == row.lanes))
      return t;
  }
  return DType::kAbsent;
}
/// kAbsent if the name is not a dtype's.
constexpr DType dtype_from_name(std::string_view name) {
  for (int i = 0; i < kNumDTypes; ++i)
    if (detail::kDTypes[i].name == name) return static_cast<DType>(i);
  return DType::kAbsent;
}

constexpr float bf16_to_f32(std::uint16_t h) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(h) << 16);
}
constexpr std::uint16_t f32_to_bf16(float f) {
  const auto u = std::bit_cast<std::uint32_t>(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((u >> 16) | 0x40u);
  return static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
constexpr float f16_to_f32(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
  const std::uint32_t magnitude = h & 0x7fffu;
  if (magnitude >= 0x7c00u)
    return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  // Scaling by 2^112 moves the exponent and normalises denormals in one exact multiplication.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
}
constexpr std::uint16_t f32_to_f16(float f) {
  const auto u = std::bit_cast<std::uint32_t>(f);
  const auto sign = static_cast<std::uint16_t>((u >> 16) & 0x8000u);
  const std::uint32_t a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u | ((a >> 13) & 0x3ffu));
  if (a >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // rounds to >= 65520
  if (a < 0x38800000u) {  // below 2^-14: the sum's last mantissa bits are the denormal
    const float shifted = std::bit_cast<float>(a) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
  const std::uint32_t rounded = a + 0xfffu + ((a >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}
/// `t`: one of the three f8 types. Conversion to f8 saturates.
constexpr float f8_to_f32(DType t, std::uint8_t code) {
  return std::bit_cast<float>(t == DType::kF8E4M3   ? f8e4m3_to_f32_bits(code)
                              : t == DType::kF8E5M2 ? f8e5m2_to_f32_bits(code)
                                                    : f8e8m0_to_f32_bits(code));
}
constexpr std::uint8_t f32_to_f8(DType t, float f) {
  const auto bits = std::bit_cast<std::uint32_t>(f);
  return static_cast<std::uint8_t>(t == DType::kF8E4M3   ? f32_bits_to_f8e4m3(bits)
                                   : t == DType::kF8E5M2 ? f32_bits_to_f8e5m2(bits)
                                                         : f32_bits_to_f8e8m0(bits));
}

}  // namespace dlblas
