// What an oracle's source may use of the standard library, for g++ and for NVRTC, which has no
// system headers: there the same names, in f64 and by value. Read next: device/oracle/row.hpp.
#pragma once

#include "device/types.hpp"

/// For functions that kernels call: nvcc needs it stated, NVRTC compiles all for the device.
#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)
#define DLBLAS_ORACLE __host__ __device__ inline
#else
#define DLBLAS_ORACLE inline
#endif

#if defined(__CUDACC_RTC__)
namespace std {
using ::int64_t;
inline double abs(double v) { return ::fabs(v); }
inline double sqrt(double v) { return ::sqrt(v); }
inline double exp(double v) { return ::exp(v); }
inline double exp2(double v) { return ::exp2(v); }
inline double log2(double v) { return ::log2(v); }
inline double log1p(double v) { return ::log1p(v); }
inline double hypot(double a, double b) { return ::hypot(a, b); }
inline double pow(double v, double power) { return ::pow(v, power); }
inline double ceil(double v) { return ::ceil(v); }
inline double floor(double v) { return ::floor(v); }
inline double erf(double v) { return ::erf(v); }
inline double erfc(double v) { return ::erfc(v); }
inline double tanh(double v) { return ::tanh(v); }
inline double nearbyint(double v) { return ::nearbyint(v); }
inline double copysign(double v, double sign) { return ::copysign(v, sign); }
inline bool isnan(double v) { return v != v; }
inline bool isinf(double v) { return ::fabs(v) == __longlong_as_double(0x7ff0000000000000); }
inline bool isfinite(double v) { return !isnan(v) && !isinf(v); }
// As in the library: returns the first of two where neither is less.
template <typename T>
constexpr T min(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
constexpr T max(T a, T b) {
  return a < b ? b : a;
}
template <typename T>
constexpr T clamp(T v, T low, T high) {
  return v < low ? low : high < v ? high : v;
}
}  // namespace std
#else
#include <algorithm>
#include <bit>
#include <cmath>
#endif

namespace dlblas {

DLBLAS_ORACLE double infinity() {
#if defined(__CUDA_ARCH__)
  return __longlong_as_double(0x7ff0000000000000);
#else
  return HUGE_VAL;
#endif
}

DLBLAS_ORACLE double not_a_number() { return infinity() - infinity(); }

/// 2^⌊log2 |v|⌋; 0 for denormals.
DLBLAS_ORACLE double power_below(double v) {
#if defined(__CUDA_ARCH__)
  return __longlong_as_double(__double_as_longlong(v) & 0x7ff0000000000000ll);
#else
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(v) & 0x7ff0'0000'0000'0000u);
#endif
}

}  // namespace dlblas
