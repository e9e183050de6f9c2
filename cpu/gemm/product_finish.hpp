// A level's code for a product program that combines columns: only the pass over sums in memory.
// In: a program. Out: the table that host code calls. Read next: cpu/gemm/product_simd.hpp.
#pragma once

#include "cpu/gemm/product_simd.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

/// For programs that need no functions; one per level, so that theirs have internal linkage.
struct NoMath {};

template <class P>
constexpr ProductCode finish_code() {
  return {{}, product_finish<P>};
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
