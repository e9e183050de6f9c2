// gated_linear's code for an instruction set: products with its epilogue, and the epilogue for sums
// in memory. Compiled once per instruction set.
// Read next: cpu/gemm/code.hpp, gated_linear_simd.hpp.
#pragma once

#include "cpu/gemm/code.hpp"
#include "ops/mlp/gated_linear/cpu/gated_linear_simd.hpp"

namespace dlblas::DLBLAS_ISA {
namespace {

void finish_rows(const mlp::GatedLinearFinish& f, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const float* const sums[2] = {static_cast<const float*>(f.sums[0].data) + i * f.sums[0].row,
                                  static_cast<const float*>(f.sums[1].data) + i * f.sums[1].row};
    GatedLinearEpilogue::store(f.out, i, 0, f.columns, sums);
  }
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
