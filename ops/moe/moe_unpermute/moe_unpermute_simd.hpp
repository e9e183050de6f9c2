// moe_unpermute on columns of a row, compiled once per instruction set.
// In: a row and its weight. Out: MoeUnpermutePasses. Flow: call > validate > select > compile >
// [launch].  Read next: cpu/simd.hpp, moe_unpermute.cpp.
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include "cpu/simd.hpp"
#pragma GCC diagnostic pop
#include "ops/moe/moe_unpermute/moe_unpermute_config.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

template <DType E>
void add_of(const void* row, int64_t count, float weight, float* sums) {
  const Vec factor = broadcast(weight);
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth)
    store<DType::kF32>(sums + i, fma(factor, load<E>(at<E>(row, i)), load<DType::kF32>(sums + i)));
  if (i == count) return;
  const int n = static_cast<int>(count - i);
  const Vec before = load_partial<DType::kF32>(sums + i, n);
  store_partial<DType::kF32>(sums + i, fma(factor, load_partial<E>(at<E>(row, i), n), before), n);
}
void add_row(DType type, const void* row, int64_t count, float weight, float* sums) {
  if (type == DType::kF32)
    add_of<DType::kF32>(row, count, weight, sums);
  else if (type == DType::kF16)
    add_of<DType::kF16>(row, count, weight, sums);
  else
    add_of<DType::kBF16>(row, count, weight, sums);
}

template <DType E>
void store_of(const float* sums, int64_t count, void* to) {
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) store<E>(at<E>(to, i), load<DType::kF32>(sums + i));
  const int n = static_cast<int>(count - i);
  if (n > 0) store_partial<E>(at<E>(to, i), load_partial<DType::kF32>(sums + i, n), n);
}
void store_row(DType type, const float* sums, int64_t count, void* to) {
  if (type == DType::kF32)
    store_of<DType::kF32>(sums, count, to);
  else if (type == DType::kF16)
    store_of<DType::kF16>(sums, count, to);
  else
    store_of<DType::kBF16>(sums, count, to);
}

}  // namespace

moe::MoeUnpermutePasses moe_unpermute_passes() { return {add_row, store_row}; }

}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
