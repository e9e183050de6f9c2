// Maxima and codes of one row of scales over tiles, once for every instruction set.
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

template <Element E>
void maxima_of(const void* row, int64_t count, float* most) {
  const auto larger = [&](int64_t i, int n) __attribute__((always_inline)) {
    // Magnitudes are ordered as integers, NaN above all.
    const Ints x = (Ints)abs(load_partial<E>(at<E>(row, i), n));
    const Ints other = (Ints)load_partial<Element::kF32>(most + i, n);
    store_partial<Element::kF32>(most + i, (Vec)max(x, other), n);
  };
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) larger(i, kWidth);
  if (i < count) larger(i, static_cast<int>(count - i));
}
void maxima(Element element, const void* row, int64_t count, float* most) {
  if (element == Element::kF32)
    maxima_of<Element::kF32>(row, count, most);
  else if (element == Element::kF16)
    maxima_of<Element::kF16>(row, count, most);
  else
    maxima_of<Element::kBF16>(row, count, most);
}

template <Element E, FloatType Q>
void codes_of(const void* row, int64_t count, const float* factors, char* to) {
  const auto scaled = [&](int64_t i, int n) __attribute__((always_inline)) {
    return load_partial<E>(at<E>(row, i), n) * load_partial<Element::kF32>(factors + i, n);
  };
  int64_t i = 0;
  for (; i + 2 * kWidth <= count; i += 2 * kWidth)
    store_bytes_as<Q>(to + i, scaled(i, kWidth), scaled(i + kWidth, kWidth), false, false);
  for (; i < count; i += kWidth) {
    const int n = static_cast<int>(count - i < kWidth ? count - i : kWidth);
    store_bytes_partial(Q, to + i, scaled(i, n), n);
  }
}
template <Element E>
void codes_from(FloatType q_type, const void* row, int64_t count, const float* factors, char* to) {
  if (q_type == FloatType::kF8E4M3)
    codes_of<E, FloatType::kF8E4M3>(row, count, factors, to);
  else if (q_type == FloatType::kF8E5M2)
    codes_of<E, FloatType::kF8E5M2>(row, count, factors, to);
  else
    codes_of<E, FloatType::kI8>(row, count, factors, to);
}
void codes(Element element, FloatType q_type, const void* row, int64_t count, const float* factors,
           void* to) {
  auto* bytes = static_cast<char*>(to);
  if (element == Element::kF32)
    codes_from<Element::kF32>(q_type, row, count, factors, bytes);
  else if (element == Element::kF16)
    codes_from<Element::kF16>(q_type, row, count, factors, bytes);
  else
    codes_from<Element::kBF16>(q_type, row, count, factors, bytes);
}

}  // namespace

QuantTilesPasses quant_tiles_passes() { return {maxima, codes}; }

}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
