// Dot products whose chains are added with their errors kept: few_rows.hpp and pair_rows.hpp.
// Compiled once per instruction set, like cpu/simd.hpp. Read next: carried_sum.hpp.
#pragma once

#include "cpu/gemm/carried_sum.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

/// Adds a chain's sums, `count` vectors, to those of the chains before it, with the errors kept.
DLBLAS_OUTLINE void end_dots(const float* sums, float* totals, float* errors, int count,
                             bool first) {
  for (int i = 0; i < count * kWidth; i += kWidth) {
    Vec total = zero(), error = zero();
    if (!first) total = load<DType::kF32>(totals + i), error = load<DType::kF32>(errors + i);
    add_exactly(total, error, load<DType::kF32>(sums + i));
    store<DType::kF32>(totals + i, total);
    store<DType::kF32>(errors + i, error);
  }
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
