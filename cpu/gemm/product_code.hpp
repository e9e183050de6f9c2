// A level's code for a product program: blocks and few rows with it, and the pass over sums in
// memory. In: a program. Out: the table that host code calls.
// Read next: cpu/gemm/product_simd.hpp, cpu/gemm/code.hpp.
#pragma once

#include "cpu/gemm/code.hpp"
#include "cpu/gemm/product_simd.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

template <class P>
constexpr ProductCode product_code() {
  return {gemm_code<ProductEpilogue<P>>(), product_finish<P>};
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
