// Contiguous elements, a vector at a time: what the passes of several families share.
// In: f32, f16 or bf16, of any alignment. Out: f32, or rounded once.
// Compiled once per instruction set, like cpu/simd.hpp. Read next: cpu/math.hpp.
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"  // what rows alone call
#include "cpu/math.hpp"
#pragma GCC diagnostic pop

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

constexpr DType kF = DType::kF32;

/// f(index, lanes) over whole vectors, then the rest.
template <typename F>
DLBLAS_INLINE void each_vector(int64_t count, const F& f) {
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) f(i, kWidth);
  if (i < count) f(i, static_cast<int>(count - i));
}
template <DType E>
DLBLAS_INLINE Vec load_lanes(const void* p, int n) {
  return n == kWidth ? load<E>(p) : load_partial<E>(p, n);
}
template <DType E>
DLBLAS_INLINE void store_lanes(void* p, Vec v, int n) {
  if (n == kWidth)
    store<E>(p, v);
  else
    store_partial<E>(p, v, n);
}

template <DType E>
DLBLAS_OUTLINE void widen_of(const void* from, int64_t count, float* to) {
  each_vector(
      count, [&](int64_t i, int n) __attribute__((always_inline)) {
        store_lanes<kF>(to + i, load_lanes<E>(at<E>(from, i), n), n);
      });
}
void widen_row(DType type, const void* from, int64_t count, float* to) {
  if (type == DType::kF32)
    widen_of<DType::kF32>(from, count, to);
  else if (type == DType::kF16)
    widen_of<DType::kF16>(from, count, to);
  else
    widen_of<DType::kBF16>(from, count, to);
}
template <DType E>
DLBLAS_OUTLINE void narrow_of(const float* from, int64_t count, void* to) {
  each_vector(
      count, [&](int64_t i, int n) __attribute__((always_inline)) {
        store_lanes<E>(at<E>(to, i), load_lanes<kF>(from + i, n), n);
      });
}
void narrow_row(DType type, const float* from, int64_t count, void* to) {
  if (type == DType::kF32)
    narrow_of<DType::kF32>(from, count, to);
  else if (type == DType::kF16)
    narrow_of<DType::kF16>(from, count, to);
  else
    narrow_of<DType::kBF16>(from, count, to);
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
