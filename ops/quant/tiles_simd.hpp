// Maxima and codes of one row, for scales over tiles, compiled once per instruction set.
// In: a row, or a part of it. Out: QuantTilesPasses. Flow: call > validate > select > compile >
// [launch].  Read next: cpu/row/bytes.hpp, tiles_cpu.cpp.
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"  // what rows alone call
#include "cpu/row/bytes.hpp"
#pragma GCC diagnostic pop
#include "ops/quant/tiles_config.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

template <DType E>
void maxima_of(const void* row, int64_t count, float* most) {
  const auto larger = [&](int64_t i, int n) __attribute__((always_inline)) {
    // Magnitudes order like integers, NaN above all.
    const Ints x = (Ints)abs(load_partial<E>(at<E>(row, i), n));
    const Ints other = (Ints)load_partial<DType::kF32>(most + i, n);
    store_partial<DType::kF32>(most + i, (Vec)max(x, other), n);
  };
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) larger(i, kWidth);
  if (i < count) larger(i, static_cast<int>(count - i));
}
void maxima(DType type, const void* row, int64_t count, float* most) {
  if (type == DType::kF32)
    maxima_of<DType::kF32>(row, count, most);
  else if (type == DType::kF16)
    maxima_of<DType::kF16>(row, count, most);
  else
    maxima_of<DType::kBF16>(row, count, most);
}

template <DType E, DType Q>
void codes_of(const void* row, int64_t count, const float* factors, char* to) {
  const auto scaled = [&](int64_t i, int n) __attribute__((always_inline)) {
    return load_partial<E>(at<E>(row, i), n) * load_partial<DType::kF32>(factors + i, n);
  };
  int64_t i = 0;
  for (; i + 2 * kWidth <= count; i += 2 * kWidth)
    store_bytes_as<Q>(to + i, scaled(i, kWidth), scaled(i + kWidth, kWidth), false, false);
  for (; i < count; i += kWidth) {
    const int n = static_cast<int>(count - i < kWidth ? count - i : kWidth);
    store_bytes_partial(Q, to + i, scaled(i, n), n);
  }
}
template <DType E>
void codes_from(DType q_type, const void* row, int64_t count, const float* factors, char* to) {
  if (q_type == DType::kF8E4M3)
    codes_of<E, DType::kF8E4M3>(row, count, factors, to);
  else if (q_type == DType::kF8E5M2)
    codes_of<E, DType::kF8E5M2>(row, count, factors, to);
  else
    codes_of<E, DType::kI8>(row, count, factors, to);
}
void codes(DType type, DType q_type, const void* row, int64_t count, const float* factors,
           void* to) {
  auto* bytes = static_cast<char*>(to);
  if (type == DType::kF32)
    codes_from<DType::kF32>(q_type, row, count, factors, bytes);
  else if (type == DType::kF16)
    codes_from<DType::kF16>(q_type, row, count, factors, bytes);
  else
    codes_from<DType::kBF16>(q_type, row, count, factors, bytes);
}

}  // namespace

quant::QuantTilesPasses quant_tiles_passes() { return {maxima, codes}; }

}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
