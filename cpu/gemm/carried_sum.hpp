// Sums whose additions keep their errors (Knuth's TwoSum), of one SIMD vector.
// Compiled once per instruction set, as cpu/simd.hpp.  Read next: cpu/gemm/mainloop.hpp.
#pragma once

#include "cpu/simd.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

/// total + error += v: the error of the addition, which is an f32, goes to `error`.
DLBLAS_INLINE void add_exactly(Vec& total, Vec& error, Vec v) {
  const Vec sum = add(total, v);
  const Vec of_v = sum - total;
  error = add(error, add(total - (sum - of_v), v - of_v));
  total = sum;
}

/// Once infinite or NaN a total stays what it is: the errors of such additions mean nothing.
DLBLAS_INLINE Vec total_of(Vec total, Vec error) {
  return total - total == zero() ? add(total, error) : total;
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
