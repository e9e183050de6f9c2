// A row of capacity gating on CPUs, once for every instruction set.
// In: a row of logits. Out: MoeGatePasses. Flow: call > validate > select > compile > [launch].
// Read next: cpu/math.hpp, ops/moe/gating/gating.hpp.
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include "cpu/math.hpp"
#pragma GCC diagnostic pop
#include "ops/moe/gating/gating_config.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

constexpr int64_t kBlock = 1024;  // columns whose sum is f32

/// f(first, lanes) over a row.
template <typename F>
DLBLAS_INLINE void each_vector(int64_t count, const F& f) {
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) f(i, kWidth);
  if (i < count) f(i, static_cast<int>(count - i));
}

template <DType E>
void softmax_of(const void* row, int64_t count, float* x, float* gates) {
  Vec most = broadcast(-__builtin_inff());
  each_vector(
      count, [&](int64_t i, int n) __attribute__((always_inline)) {
        const Vec v = load_partial<E>(at<E>(row, i), n);
        store_partial<DType::kF32>(x + i, v, n);
        most = max(choose(lanes_below(n), v, most), most);
      });
  const Vec largest = broadcast(reduce_max(most));
  double sum = 0;  // of blocks, each in f32
  for (int64_t first = 0; first < count; first += kBlock) {
    Vec sums = zero();
    each_vector(
        count - first < kBlock ? count - first : kBlock, [&](int64_t i,
                                                             int n) __attribute__((always_inline)) {
          const Vec power = exp(load_partial<DType::kF32>(x + first + i, n) - largest);
          store_partial<DType::kF32>(gates + first + i, power, n);
          sums = sums + choose(lanes_below(n), power, zero());
        });
    sum += static_cast<double>(reduce_add(sums));
  }
  const Vec inverse = broadcast(1.0f / static_cast<float>(sum));
  each_vector(
      count, [&](int64_t i, int n) __attribute__((always_inline)) {
        store_partial<DType::kF32>(gates + i, load_partial<DType::kF32>(gates + i, n) * inverse, n);
      });
}
void softmax(DType type, const void* row, int64_t count, float* x, float* gates) {
  if (type == DType::kF32)
    softmax_of<DType::kF32>(row, count, x, gates);
  else if (type == DType::kF16)
    softmax_of<DType::kF16>(row, count, x, gates);
  else
    softmax_of<DType::kBF16>(row, count, x, gates);
}

/// Σ gates, then Σ gates · slopes, in f64: of[2].
void sums(const float* gates, const double* slopes, int64_t count, double* of) {
  constexpr int kChains = 16;
  double all[kChains] = {}, sloped[kChains] = {};
  int64_t i = 0;
  for (; i + kChains <= count; i += kChains)
    for (int n = 0; n < kChains; ++n) {
      const auto gate = static_cast<double>(gates[i + n]);
      all[n] += gate, sloped[n] += gate * slopes[i + n];
    }
  for (int n = 0; i < count; ++i, ++n) {
    const auto gate = static_cast<double>(gates[i]);
    all[n] += gate, sloped[n] += gate * slopes[i];
  }
  for (int half = kChains / 2; half > 0; half /= 2)
    for (int n = 0; n < half; ++n) all[n] += all[n + half], sloped[n] += sloped[n + half];
  of[0] = all[0], of[1] = sloped[0];
}

template <DType E>
void store_row(const float* values, int64_t count, void* to) {
  each_vector(
      count, [&](int64_t i, int n) __attribute__((always_inline)) {
        store_partial<E>(at<E>(to, i), load_partial<DType::kF32>(values + i, n), n);
      });
}
/// gates · scale · (slopes − mean), in f64, rounded to f32; `to`: and to a row of the type.
void gradient(DType type, const float* gates, const double* slopes, int64_t count, double scale,
              double mean, float* values, void* to) {
  for (int64_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(static_cast<double>(gates[i]) * scale * (slopes[i] - mean));
  if (!to) return;
  if (type == DType::kF32)
    store_row<DType::kF32>(values, count, to);
  else if (type == DType::kF16)
    store_row<DType::kF16>(values, count, to);
  else
    store_row<DType::kBF16>(values, count, to);
}

}  // namespace

moe::MoeGatePasses moe_gate_passes() { return {softmax, sums, gradient}; }

}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
