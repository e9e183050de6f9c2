// One element of a tensor as f64: how references, verification and input generation read and write
// memory. Slow and general on purpose; kernels have their own vectorised conversions
// (cpu/simd.hpp).
#pragma once

#include <bit>
#include <cmath>
#include <cstring>

#include "core/dtype.hpp"
#include "core/tensor.hpp"

namespace dlblas {

namespace detail {
/// f64 → f32 rounded to odd, so that a second rounding to a narrower type equals one rounding from
/// f64.
inline float to_f32_odd(double v) {
  const float f = static_cast<float>(v);
  if (static_cast<double>(f) == v || std::isnan(v) || std::isinf(f)) return f;
  const auto bits = std::bit_cast<std::uint32_t>(f);
  if (bits & 1u) return f;
  const bool toward_zero = std::abs(static_cast<double>(f)) < std::abs(v);
  return std::bit_cast<float>(toward_zero ? bits + 1 : bits - 1);
}
}  // namespace detail

/// Rounds to a dtype's nearest value (ties to even), as f64; f8 saturates.
inline double round_to(DType t, double v) {
  switch (t) {
    case DType::kF32:
      return static_cast<float>(v);
    case DType::kF16:
      return f16_to_f32(f32_to_f16(detail::to_f32_odd(v)));
    case DType::kBF16:
      return bf16_to_f32(f32_to_bf16(detail::to_f32_odd(v)));
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kF8E8M0:
      return f8_to_f32(t, f32_to_f8(t, detail::to_f32_odd(v)));
    default:
      return v;
  }
}

/// Element `at` (in elements from data) as f64. Integer types convert.
inline double load_element(const TensorView& t, std::int64_t at) {
  const auto* p = static_cast<const char*>(t.data) + at * size_of(t.dtype);
  auto read = [p]<typename V>(V v) {
    std::memcpy(&v, p, sizeof v);
    return v;
  };
  switch (t.dtype) {
    case DType::kF32:
      return read(0.0f);
    case DType::kF16:
      return f16_to_f32(read(std::uint16_t{}));
    case DType::kBF16:
      return bf16_to_f32(read(std::uint16_t{}));
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kF8E8M0:
      return f8_to_f32(t.dtype, read(std::uint8_t{}));
    case DType::kF64:
      return read(0.0);
    case DType::kI8:
      return read(std::int8_t{});
    case DType::kI32:
      return read(std::int32_t{});
    case DType::kI64:
      return static_cast<double>(read(std::int64_t{}));
    default:
      return read(std::uint8_t{});
  }
}

inline void store_element(const TensorView& t, std::int64_t at, double v) {
  auto* p = static_cast<char*>(t.data) + at * size_of(t.dtype);
  auto write = [p](auto w) { std::memcpy(p, &w, sizeof w); };
  switch (t.dtype) {
    case DType::kF32:
      return write(static_cast<float>(v));
    case DType::kF16:
      return write(f32_to_f16(detail::to_f32_odd(v)));
    case DType::kBF16:
      return write(f32_to_bf16(detail::to_f32_odd(v)));
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kF8E8M0:
      return write(f32_to_f8(t.dtype, detail::to_f32_odd(v)));
    case DType::kF64:
      return write(v);
    case DType::kI8:
      return write(static_cast<std::int8_t>(v));
    case DType::kI32:
      return write(static_cast<std::int32_t>(v));
    case DType::kI64:
      return write(static_cast<std::int64_t>(v));
    default:
      return write(static_cast<std::uint8_t>(v));
  }
}

}  // namespace dlblas
