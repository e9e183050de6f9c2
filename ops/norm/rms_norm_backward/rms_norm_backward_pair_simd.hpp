// Two vectors at a time: the step of the main loops.
// Read next: ops/norm/rms_norm_backward/rms_norm_backward_simd.hpp.
#pragma once

#include "cpu/simd.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

/// Elements of one step of the main loops.
constexpr int kPair = 2 * kWidth;

/// NaNs to be rounded to E come from E or from arithmetic, unless an f32 weight brings its own.
template <DType E, DType W>
constexpr Nans kNans = E != DType::kF32&& W == DType::kF32 ? Nans::kAny : Nans::kShort;

DLBLAS_INLINE Pair add2(Pair x, Pair y) { return {add(x.a, y.a), add(x.b, y.b)}; }
DLBLAS_INLINE Pair mul2(Pair x, Pair y) { return {mul(x.a, y.a), mul(x.b, y.b)}; }
DLBLAS_INLINE Pair fma2(Pair x, Pair y, Pair z) { return {fma(x.a, y.a, z.a), fma(x.b, y.b, z.b)}; }
template <DType E, Nans N>
DLBLAS_INLINE Pair round2(Pair x) {
  return {round<E, N>(x.a), round<E, N>(x.b)};
}

DLBLAS_INLINE int lanes_left(int64_t i, int64_t end) {
  return end - i < kWidth ? static_cast<int>(end - i) : kWidth;
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
