// Dequantises a part of a row of a 4-bit weight: (q − zero) · scale in f32, one rounding at the
// store. Compiled once per instruction set. Read next: dequantize_config.hpp, dequantize.cpp.
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include "cpu/simd.hpp"
#pragma GCC diagnostic pop
#include "ops/w4/dequantize_config.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

using Words8 = uint32_t __attribute__((vector_size(32)));
using Ints8 = int32_t __attribute__((vector_size(32)));
using Floats8 = float __attribute__((vector_size(32)));

/// (q − zero) · scale of eight columns.
#define DLBLAS_W4_EIGHT(q, i)                                                              \
  do {                                                                                     \
    Floats8 zero, scale;                                                                   \
    __builtin_memcpy(&zero, line.zero + (i), 32);                                          \
    __builtin_memcpy(&scale, line.scale + (i), 32);                                        \
    const Floats8 v = (__builtin_convertvector((Ints8)((q)&15u), Floats8) - zero) * scale; \
    __builtin_memcpy(row + (i), &v, 32);                                                   \
  } while (false)

void columns_of_words(const w4::W4Line& line, float* row) {
  const Words8 shifts = {0, 16, 4, 20, 8, 24, 12, 28};
  for (int64_t i = 0; i < line.columns; i += 8) {
    const uint32_t w = line.words[i / 8];
    const Words8 words = {w, w, w, w, w, w, w, w};
    DLBLAS_W4_EIGHT(words >> shifts, i);
  }
}

void row_of_words(const w4::W4Line& line, float* row) {
  const auto shift = static_cast<uint32_t>(line.shift);
  int64_t i = 0;
  for (; i + 8 <= line.columns; i += 8) {
    Words8 words;
    __builtin_memcpy(&words, line.words + i, 32);
    DLBLAS_W4_EIGHT(words >> shift, i);
  }
  for (; i < line.columns; ++i)
    row[i] = (static_cast<float>(line.words[i] >> shift & 15u) - line.zero[i]) * line.scale[i];
}
#undef DLBLAS_W4_EIGHT

template <DType E>
void narrow_row(const float* from, int64_t count, void* to) {
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) store<E>(at<E>(to, i), load<DType::kF32>(from + i));
  const int left = static_cast<int>(count - i);
  if (left > 0) store_partial<E>(at<E>(to, i), load_partial<DType::kF32>(from + i, left), left);
}

}  // namespace

void w4_row(const w4::W4Line& line) {
  alignas(64) float row[w4::kW4Columns];
  if (line.shift < 0)
    columns_of_words(line, row);
  else
    row_of_words(line, row);
  if (line.type == DType::kF32)
    narrow_row<DType::kF32>(row, line.columns, line.to);
  else if (line.type == DType::kF16)
    narrow_row<DType::kF16>(row, line.columns, line.to);
  else
    narrow_row<DType::kBF16>(row, line.columns, line.to);
}

}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
