// Fixed-size integers and element types for headers that the host compiler and NVRTC both read.
// NVRTC gets no include path, so nothing of the system may be included there.
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

namespace dlblas {

/// Elements of kernels. Equal to the DType of the same name; host code asserts it where it
/// converts. Those after kBF16 are storage of row programs (device/row/): values are f32 in
/// between.
enum class FloatType : int32_t { kF32, kF16, kBF16, kF8E4M3, kF8E5M2, kI8 };

constexpr bool is_f8(FloatType type) {
  return type == FloatType::kF8E4M3 || type == FloatType::kF8E5M2;
}
constexpr int size_of(FloatType type) {
  return type == FloatType::kF32 ? 4 : type <= FloatType::kBF16 ? 2 : 1;
}

}  // namespace dlblas
