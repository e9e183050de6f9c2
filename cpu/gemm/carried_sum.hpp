// Sums that keep the errors of their additions (Knuth's TwoSum), for one SIMD vector.
// Compiled once per instruction set, like cpu/simd.hpp. Read next: cpu/gemm/mainloop.hpp.
#pragma once

#include "cpu/simd.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

/// total + error += v: the addition's error, which is an f32, is added to `error`.
DLBLAS_INLINE void add_exactly(Vec& total, Vec& error, Vec v) {
  const Vec sum = add(total, v);
  const Vec of_v = sum - total;
  error = add(error, add(total - (sum - of_v), v - of_v));
  total = sum;
}

/// An infinite or NaN total stays as it is: the errors of such additions mean nothing.
DLBLAS_INLINE Vec total_of(Vec total, Vec error) {
  return total - total == zero() ? add(total, error) : total;
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
