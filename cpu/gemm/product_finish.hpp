// A level's code of a product program whose columns meet: the pass over sums in memory alone.
// In: a program. Out: the table that host code calls.  Read next: cpu/gemm/product_simd.hpp.
#pragma once

#include "cpu/gemm/product_simd.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

/// Of programs that need no functions; of this level, so that theirs have internal linkage.
struct NoMath {};

template <class P>
constexpr ProductCode finish_code() {
  return {{}, product_finish<P>};
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
