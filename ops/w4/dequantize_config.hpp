// What the host and the kernels of 4-bit weights share: plain values. Read next: dequantize.hpp,
// dequantize.cuh.
#pragma once

#include "device/types.hpp"

namespace dlblas::w4 {

struct W4Traits {
  DType type;    // of scales and y
  bool along_k;  // a word holds eight rows (GPTQ), else eight columns (AWQ)
  bool zeros;
  bool plain;  // rows of everything are aligned, elements side by side
};

/// A matrix; strides in elements.
struct W4Matrix {
  void* data;
  int64_t row, col;
};
struct W4Params {
  W4Matrix q, scales, zeros, y;
  int64_t depth, columns, group;
  int32_t plus;  // what stored zeros lack
};
inline constexpr int kW4Threads = 256;
static_assert(sizeof(W4Params) == 4 * 24 + 3 * 8 + 8, "host and device read the same bytes");

/// Columns of a row that a CPU dequantises at a time.
inline constexpr int kW4Columns = 512;
/// A part of a row on a CPU.
struct W4Line {
  const uint32_t* words;
  const float *zero, *scale;
  int64_t columns;  // at most kW4Columns; a multiple of 8 where words hold columns
  int32_t shift;    // of the row in its words; -1: words hold columns
  DType type;       // of `to`
  void* to;
};

}  // namespace dlblas::w4

// One entry per instruction set, each in its own object.
namespace dlblas::baseline {
void w4_row(const w4::W4Line& line);
}
namespace dlblas::avx2 {
void w4_row(const w4::W4Line& line);
}
namespace dlblas::avx512 {
void w4_row(const w4::W4Line& line);
}
