// One call of a row program on a CPU, as the objects of all instruction sets see it: plain values.
// Read next: cpu/row/walk_rows.hpp (what runs it), src/kernels/rows_cpu.cpp (what fills it).
#pragma once

#include "device/row/call.hpp"

namespace dlblas {

struct RowJob {
  NestedRowCall call;
  DType types[kMaxRowOperands];  // of values: integers are RowShape::index
  RowShape shape;
  uint32_t rows_of = 0;  // bit i: operand i has rows; else it is a vector over columns
  uint32_t written = 0;  // bit i: operand i is a result
  uint32_t shifted = 0;  // bit i: its rows are longer than the width: stores may be shifted
  int32_t operands = 0;
  int32_t tile = 0;           // columns of one unit of work; rows that are reduced are one unit
  bool paired = false;        // values go by even and odd elements: cheapest where x is bf16
  bool short_nans = false;    // no f32 among the inputs: see Nans in cpu/simd.hpp
  bool stream = false;        // results go past the caches
  bool prefetch = false;      // rows are asked for before they are walked
  float* partials = nullptr;  // results over columns: sums of a part of the rows, in f32
  // With results over columns, unit u is row u · period + phase, and all units are one part's.
  int32_t period = 1, phase = 0;
  uint32_t at_columns = 0;  // bit i: operand i is given, and is read or written at columns
};

/// Runs units [begin, end), numbered row · tiles + tile.
using RowJobFn = void (*)(const RowJob& job, int64_t begin, int64_t end);

}  // namespace dlblas
