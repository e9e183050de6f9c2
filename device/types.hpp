// Fixed-size integers and properties of element types, for headers that both the host compiler and
// NVRTC read.
// NVRTC gets no include path, so it must not see any system header.
// Read next: device/numeric.cuh.
#pragma once

#if defined(__CUDACC_RTC__)
using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long;
using uint64_t = unsigned long;
using size_t = unsigned long;
#else
#include <cstddef>
#include <cstdint>
#endif

#include "device/dtype.hpp"

namespace dlblas {

constexpr bool is_f8(DType t) { return t == DType::kF8E4M3 || t == DType::kF8E5M2; }

/// Bytes per element; 0 for kAbsent. Four bits per type in one constant: no branch and no table,
/// since row loops over any type call it at each access.
constexpr int size_of(DType t) {
  return static_cast<int>(0x01181184111224ull >> 4 * static_cast<int>(t) & 15);
}

/// Finite range and precision of a float dtype: largest value, machine epsilon (spacing at 1),
/// smallest denormal.
struct FloatTraits {
  double max, eps, tiny;
};
constexpr FloatTraits float_traits(DType t) {
  switch (t) {
    case DType::kF16:
      return {65504.0, 0x1p-10, 0x1p-24};
    case DType::kBF16:
      return {0x1.fep127, 0x1p-7, 0x1p-133};
    case DType::kF8E4M3:
      return {448, 0x1p-3, 0x1p-9};
    case DType::kF8E5M2:
      return {57344, 0x1p-2, 0x1p-16};
    case DType::kF8E8M0:
      return {0x1p127, 1, 0x1p-127};
    case DType::kF64:
      return {0x1.fffffffffffffp1023, 0x1p-52, 0x0.0000000000001p-1022};
    default:
      return {0x1.fffffep127, 0x1p-23, 0x1p-149};
  }
}

}  // namespace dlblas
