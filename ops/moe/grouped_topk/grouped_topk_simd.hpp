// The scores of one row of grouped_topk, compiled once per instruction set; the choice among them
// is plain C++ (grouped_topk_cpu.cpp). Numerics: cpu/math.hpp. Flow: call > validate > select >
// compile > [launch]. Read next: cpu/math.hpp.
#pragma once

#include "cpu/math.hpp"
#include "ops/moe/grouped_topk/grouped_topk_config.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

/// f(first column, number of valid columns) for each vector of a row.
template <typename F>
DLBLAS_INLINE void each_vector(int64_t count, const F& f) {
  for (int64_t i = 0; i < count; i += kWidth)
    f(i, static_cast<int>(count - i < kWidth ? count - i : kWidth));
}
DLBLAS_INLINE Vec load_some(const float* from, int64_t i, int n) {
  return load_partial<DType::kF32>(from + i, n);
}

template <DType E>
void widen_row(const void* row, int64_t count, float* to) {
  each_vector(
      count, [&](int64_t i, int n) __attribute__((always_inline)) {
        store_partial<DType::kF32>(to + i, load_partial<E>(at<E>(row, i), n), n);
      });
}
void widen(DType type, const void* row, int64_t count, float* to) {
  if (type == DType::kF32)
    widen_row<DType::kF32>(row, count, to);
  else if (type == DType::kF16)
    widen_row<DType::kF16>(row, count, to);
  else
    widen_row<DType::kBF16>(row, count, to);
}

/// e^min(x, 0) / (1 + e^−|x|).
DLBLAS_INLINE Vec sigmoid_of(Vec x) {
  const Vec one = broadcast(1.0f);
  return exp(min(x, zero())) / (one + exp(zero() - abs(x)));
}

void score_row(moe::GroupedScores& row) {
  Vec factor = broadcast(1.0f), most = zero();
  if (row.softmax) {
    most = broadcast(-__builtin_inff());
    each_vector(
        row.experts, [&](int64_t i, int n) __attribute__((always_inline)) {
          const Vec x = load_some(row.x, i, n);
          most = max(choose(lanes_below(n), x, most), most);
        });
    row.max = reduce_max(most);
    most = broadcast(row.max);
    row.sum = 0;
    each_vector(
        row.experts, [&](int64_t i, int n) __attribute__((always_inline)) {
          const Vec power = exp(load_some(row.x, i, n) - most);
          row.sum += static_cast<double>(reduce_add(choose(lanes_below(n), power, zero())));
        });
    factor = broadcast(static_cast<float>(1 / row.sum));
  }
  each_vector(
      row.experts, [&](int64_t i, int n) __attribute__((always_inline)) {
        const Vec x = load_some(row.x, i, n);
        Vec score = row.softmax ? exp(x - most) * factor : sigmoid_of(x);
        if (row.bias) score = score + load_some(row.bias, i, n);
        store_partial<DType::kF32>(row.biased + i, score, n);
      });
}

}  // namespace

moe::GroupedTopkPasses grouped_topk_passes() { return {widen, score_row}; }

}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
