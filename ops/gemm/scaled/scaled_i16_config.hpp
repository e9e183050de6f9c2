// What the host code and the AVX2 object of the i8 product share: packed rows, a task's memory, and
// the functions. No inline functions here, see scaled_config.hpp. Read next:
// ops/gemm/scaled/scaled_i16_avx2.cpp, scaled_i16.cpp.
#pragma once

#include "ops/gemm/scaled/scaled_config.hpp"

namespace dlblas::gemm::scaled {

/// Terms of K whose sum fits i32.
inline constexpr int64_t kI16Span = 65536;
/// Columns of b that are packed side by side: two vectors of pairs.
inline constexpr int64_t kI16Columns = 16;
inline constexpr int64_t kI16MostColumns = 1024;
/// Maximum rows of a register tile.
inline constexpr int64_t kI16Rows = 6;

struct I16Config {
  int32_t depth;    // of K that is packed at a time
  int32_t columns;  // of b that are
  bool dots;        // b's columns are read as they lie; they are contiguous
};

/// Some rows of a as i16: panels of `height` rows, each [K / 2][height][2], zeros past K and past
/// the last row. A panel of one row keeps that row's order.
struct I16Rows {
  int64_t first, count;    // of the call's rows
  int64_t height, panels;  // height · panels: count or some more
  int64_t pitch;           // packed codes of a row, a multiple of 16
  int16_t* codes;
};
/// Panels [p0, p1) and columns [j0, j1), and a task's memory.
struct I16Part {
  int64_t p0, p1, j0, j1;
  int16_t* b;      // depth × columns
  int32_t* sums;   // rows × columns
  double* totals;  // the same; null where K is one span
};
struct I16Code {
  void (*pack)(const ScaledJob&, const I16Rows&, int64_t p0, int64_t p1);
  void (*multiply)(const ScaledJob&, const I16Config&, const I16Rows&, const I16Part&);
};

}  // namespace dlblas::gemm::scaled

namespace dlblas::avx2 {
extern const gemm::scaled::I16Code kI16Code;
}
