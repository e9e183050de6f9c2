// What the host and the CPU kernels of products of few rows with packed weights share: plain
// values. Read next: few_rows_simd.hpp, few_rows_cpu.cpp.
#pragma once

#include "ops/w4/product_config.hpp"

namespace dlblas::w4 {

inline constexpr int kFewRows = 8;       // of x, at most
inline constexpr int kFewColumns = 128;  // of a task: a cache line of AWQ's words
inline constexpr int kFewDepth = 128;    // rows of the weight whose factors are made at once
inline constexpr int kFewStep = 16;      // K and groups are multiples of it

/// Columns [first, first + columns) of y. Rows of words, scales and zeros have adjacent elements.
struct FewRowsTask {
  const float* x;  // [rows, depth], in the order of few_rows_widen
  int32_t rows;    // 1, 2, 4 or 8
  Codes codes;
  DType type;  // of the scales of 4-bit codes, and what weights are rounded to
  bool scales_sums;
  int32_t plus;                           // what stored zeros lack
  const void *words, *scales, *zeros;     // zeros null: 8
  int64_t word_row, scale_row, zero_row;  // elements from row to row
  int64_t depth, group, first, columns;
  float* sums;  // [rows, kFewColumns]
};

}  // namespace dlblas::w4

// What a level has, each in its own object: the product; 16-bit elements of x as f32, in the order
// that it takes; f32 as 16-bit elements of y.
namespace dlblas::avx2 {
void few_rows(const w4::FewRowsTask& task);
void few_rows_widen(w4::Codes codes, DType type, const void* x, int64_t count, float* to);
void few_rows_narrow(const float* from, int64_t count, DType type, void* to);
}  // namespace dlblas::avx2
namespace dlblas::avx512 {
void few_rows(const w4::FewRowsTask& task);
void few_rows_widen(w4::Codes codes, DType type, const void* x, int64_t count, float* to);
void few_rows_narrow(const float* from, int64_t count, DType type, void* to);
}  // namespace dlblas::avx512
