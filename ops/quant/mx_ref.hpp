// The oracles of microscaling formats: every step in f32, rounded as in
// ops/common/quant_groups/quant_mx.hpp, so codes and scales have one right value each. e2m1 is 0,
// ½, 1, 1½, 2, 3, 4, 6; two codes per byte, the first in the low half. Read next:
// ops/common/quant_groups/quant_mx.hpp, ops/common/quant_ref.hpp.
#pragma once

#include "ops/common/quant_ref.hpp"

namespace dlblas::quant {

enum MxTensor : int { kMxX, kMxGlobal };
enum MxLetter : int { kMxT, kMxK };
inline constexpr int kMxGroup = 32, kNvGroup = 16;

DLBLAS_ORACLE double f32_of(double v) { return round_to(DType::kF32, v); }

/// The nearest e2m1 code, ties to even, saturated; NaN becomes the largest.
DLBLAS_ORACLE double f4_code_of(double v) {
  if (std::isnan(v)) return 7;
  const double a = std::min(std::abs(v), 6.0), step = a < 2 ? 0.5 : a < 4 ? 1 : 2;
  const double near = std::nearbyint(a / step) * step;
  const double code = near <= 2 ? 2 * near : near <= 4 ? 2 + near : 7;
  return code + (std::copysign(1.0, v) < 0 ? 8 : 0);
}

/// Stores columns [begin, end) as codes of v(column), in q's type.
template <typename Row, typename F>
void store_mx_codes(Row& row, std::int64_t begin, std::int64_t end, const F& v) {
  const DType type = row.result_dtype(0);
  if (type != DType::kU8) {
    row.each(end - begin, [&](auto c) { row.store(0, begin + c, code_of(type, v(begin + c)), 0); });
    return;
  }
  row.each((end - begin) / 2, [&](auto pair) {
    const auto c = begin + 2 * pair;
    row.store(0, c / 2, f4_code_of(v(c)) + 16 * f4_code_of(v(c + 1)), 0);
  });
}

/// f(begin, end, block, largest |x|) for each block of columns.
template <typename Row, typename F>
void each_mx_block(Row& row, std::int64_t group, const F& f) {
  const std::int64_t width = row.size(kMxK);
  for (std::int64_t begin = 0, at = 0; begin < width; begin += group, ++at) {
    const std::int64_t end = std::min(width, begin + group);
    const double amax =
        row.max(end - begin, [&](auto c) { return std::abs(row.load(kMxX, begin + c)); });
    f(begin, end, at, amax);
  }
}

/// OCP: the scale is 2^(⌊log2 amax⌋ − top), at least 2^-127.
template <typename Row>
void quantize_mx_row(Row& row) {
  const double top = row.result_dtype(0) == DType::kU8 ? 4 : 256;
  each_mx_block(row, kMxGroup, [&](auto begin, auto end, auto at, double amax) {
    const double scale =
        std::isfinite(amax) ? std::max(power_below(amax) / top, 0x1p-127) : amax - amax;
    row.store(1, at, scale, 0);
    store_mx_codes(row, begin, end, [&](auto c) { return row.load(kMxX, c) / scale; });
  });
}

/// The scale is amax / (6 · global) in e4m3.
template <typename Row>
void quantize_nv_row(Row& row) {
  const double global = row.value(kMxGlobal), six = f32_of(6 * global);
  each_mx_block(row, kNvGroup, [&](auto begin, auto end, auto at, double amax) {
    const double scale = code_of(DType::kF8E4M3, f32_of(amax / six));
    const double factor = scale == 0 ? 0 : f32_of(1 / f32_of(scale * global));
    row.store(1, at, scale, 0);
    store_mx_codes(row, begin, end, [&](auto c) { return f32_of(row.load(kMxX, c) * factor); });
  });
}

}  // namespace dlblas::quant
