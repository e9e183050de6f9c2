// What the host code and the AVX512_VNNI object of the i8 product share: packed rows, a task's
// memory, and the functions. No inline functions here, see scaled_config.hpp. Read next:
// ops/gemm/scaled/scaled_avx512vnni.cpp, scaled_vnni.cpp.
#pragma once

#include "ops/gemm/scaled/scaled_config.hpp"

namespace dlblas::gemm::scaled {

/// Terms of K for which the sum, and 128 times the sum of a's codes, fit i32.
inline constexpr int64_t kVnniSpan = 65536;
/// Columns of b that are packed together, and the bytes of a vector.
inline constexpr int64_t kVnniColumns = 64;
inline constexpr int64_t kVnniMostColumns = 2048;
/// Maximum rows of a register tile.
inline constexpr int64_t kVnniRows = 6;

struct VnniConfig {
  int32_t depth;    // of K that is packed at a time
  int32_t columns;  // of b that are
  bool dots;        // b's columns are read as they lie; they are contiguous
};

/// Some rows of a, packed: panels of `height` rows, each [K / 4][height][4] bytes, zeros past K and
/// past the last row. A panel of one row keeps that row's order.
struct VnniRows {
  int64_t first, count;    // of the call's rows
  int64_t height, panels;  // height · panels: count or some more
  int64_t pitch;           // packed bytes of a row
  int8_t* codes;
  int32_t* starts;  // [span][height · panels], −128 · the sum of a row's codes
};
/// Panels [p0, p1) and columns [j0, j1), and a task's memory.
struct VnniPart {
  int64_t p0, p1, j0, j1;
  uint8_t* b;      // depth × columns
  int32_t* sums;   // rows × columns
  double* totals;  // the same; null where K is one span
};
struct VnniCode {
  void (*pack)(const ScaledJob&, const VnniRows&, int64_t p0, int64_t p1);
  void (*multiply)(const ScaledJob&, const VnniConfig&, const VnniRows&, const VnniPart&);
  /// Rows [i0, i1) of the result, from sums that are contiguous.
  void (*finish)(const ScaledJob&, const int32_t* sums, int64_t i0, int64_t i1);
};

}  // namespace dlblas::gemm::scaled

namespace dlblas::avx512 {
extern const gemm::scaled::VnniCode kVnniCode;
}
