// Attention's passes over rows of f32, compiled once per instruction set.
// In: rows. Out: AttentionPasses. Numerics: f32; a product accumulates in the order of k and adds
// the previous c last. Flow: call > validate > select > compile > [launch].  Read next:
// attention_cpu.cpp.
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"  // what rows alone call
#include "cpu/gemm/pack.hpp"
#include "cpu/lines.hpp"
#pragma GCC diagnostic pop
#include "ops/attention/attention_config.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

/// Transposes squares in registers.
void turn(const float* from, int64_t from_pitch, int64_t count, int64_t width, float* to,
          int64_t pitch) {
  for (int64_t j = 0; j < count; j += kWidth) {
    for (int64_t c = 0; c < width; c += kWidth) {
      const int64_t rows = smaller(kWidth, count - j), columns = smaller(kWidth, width - c);
      Vec square[kWidth];
      for (int i = 0; i < kWidth; ++i)
        square[i] = i < rows ? load_first<kF>(from + (j + i) * from_pitch + c, columns) : zero();
      transpose(square);
      for (int i = 0; i < columns; ++i) store<kF>(to + (c + i) * pitch + j, square[i]);
    }
  }
}

/// kRows rows of c, kVectors vectors wide, accumulated in registers.
template <int kRows, int kVectors>
DLBLAS_INLINE void multiply_tile(const float* a, int64_t a_pitch, const float* b, int64_t b_pitch,
                                 float* c, int64_t c_pitch, int64_t k, bool accumulate) {
  Vec sums[kRows][kVectors];
  DLBLAS_UNROLL for (int r = 0; r < kRows; ++r) DLBLAS_UNROLL for (int v = 0; v < kVectors; ++v)
      sums[r][v] = zero();
  for (int64_t i = 0; i < k; ++i) {
    Vec columns[kVectors];
    DLBLAS_UNROLL for (int v = 0; v < kVectors; ++v) columns[v] =
        load<kF>(b + i * b_pitch + v * kWidth);
    DLBLAS_UNROLL for (int r = 0; r < kRows; ++r) {
      const Vec value = broadcast(a[r * a_pitch + i]);
      DLBLAS_UNROLL for (int v = 0; v < kVectors; ++v) sums[r][v] =
          fma(value, columns[v], sums[r][v]);
    }
  }
  DLBLAS_UNROLL for (int r = 0; r < kRows; ++r) DLBLAS_UNROLL for (int v = 0; v < kVectors; ++v) {
    float* const to = c + r * c_pitch + v * kWidth;
    store<kF>(to, accumulate ? add(load<kF>(to), sums[r][v]) : sums[r][v]);
  }
}

template <int kVectors>
void multiply_rows(const float* a, int64_t a_pitch, const float* b, int64_t b_pitch, float* c,
                   int64_t c_pitch, int64_t m, int64_t k, bool accumulate) {
  constexpr int kRows = kWidth == 16 ? 8 : 6;
  int64_t r = 0;
  for (; r + kRows <= m; r += kRows)
    multiply_tile<kRows, kVectors>(a + r * a_pitch, a_pitch, b, b_pitch, c + r * c_pitch, c_pitch,
                                   k, accumulate);
  for (; r + 4 <= m; r += 4)
    multiply_tile<4, kVectors>(a + r * a_pitch, a_pitch, b, b_pitch, c + r * c_pitch, c_pitch, k,
                               accumulate);
  for (; r + 2 <= m; r += 2)
    multiply_tile<2, kVectors>(a + r * a_pitch, a_pitch, b, b_pitch, c + r * c_pitch, c_pitch, k,
                               accumulate);
  for (; r < m; ++r)
    multiply_tile<1, kVectors>(a + r * a_pitch, a_pitch, b, b_pitch, c + r * c_pitch, c_pitch, k,
                               accumulate);
}

void multiply(const float* a, int64_t a_pitch, const float* b, int64_t b_pitch, float* c,
              int64_t c_pitch, int64_t m, int64_t k, int64_t w, bool accumulate) {
  constexpr int64_t kWide = 2 * kWidth > attention::kCpuLanes ? 2 * kWidth : attention::kCpuLanes;
  int64_t i = 0;
  // A single row takes enough columns at once that its chains of fma hide each other's latency.
  constexpr int kApart = 8;
  for (; m == 1 && i + kApart * kWidth <= w; i += kApart * kWidth)
    multiply_tile<1, kApart>(a, a_pitch, b + i, b_pitch, c + i, c_pitch, k, accumulate);
  for (; i + kWide <= w; i += kWide)
    multiply_rows<kWide / kWidth>(a, a_pitch, b + i, b_pitch, c + i, c_pitch, m, k, accumulate);
  for (; i < w; i += attention::kCpuLanes)
    multiply_rows<attention::kCpuLanes / kWidth>(a, a_pitch, b + i, b_pitch, c + i, c_pitch, m, k,
                                                 accumulate);
}

DLBLAS_INLINE float largest(Vec v, float most) {
  float lanes[kWidth];
  store<kF>(lanes, v);
  for (int i = 0; i < kWidth; ++i) most = lanes[i] > most ? lanes[i] : most;
  return most;
}

float softmax(float* scores, int64_t count, float scale, float cap, const float* bias, float* most,
              float* sum) {
  const Vec none = broadcast(-__builtin_inff());
  Vec peak = broadcast(*most);
  const Vec factor = broadcast(scale), limit = broadcast(cap),
            inverse = broadcast(cap != 0 ? 1 / cap : 0.0f);
  each_vector(
      count, [&](int64_t i, int n) __attribute__((always_inline)) {
        Vec s = mul(load_lanes<kF>(scores + i, n), factor);
        if (cap != 0) s = mul(limit, tanh(mul(s, inverse)));
        if (bias) s = add(s, load_lanes<kF>(bias + i, n));
        store_lanes<kF>(scores + i, s, n);
        peak = max_number(n == kWidth ? s : choose(lanes_below(n), s, none), peak);
      });
  const float before = *most, after = largest(peak, before);
  const float base = after == -__builtin_inff() ? 0.0f : after;
  Vec total = zero();
  each_vector(
      count, [&](int64_t i, int n) __attribute__((always_inline)) {
        const Vec p = exp(load_lanes<kF>(scores + i, n) - broadcast(base));
        store_lanes<kF>(scores + i, p, n);
        total = add(total, n == kWidth ? p : choose(lanes_below(n), p, zero()));
      });
  float rescale[kWidth];
  store<kF>(rescale, exp(broadcast(before - base)));
  *most = after;
  *sum = *sum * rescale[0] + reduce_add(total);
  return rescale[0];
}

void scale_row(float* row, int64_t count, float factor) {
  each_vector(
      count, [&](int64_t i, int n) __attribute__((always_inline)) {
        store_lanes<kF>(row + i, mul(load_lanes<kF>(row + i, n), broadcast(factor)), n);
      });
}

void gradient(float* scores, float* dp, int64_t count, float scale, float cap, const float* bias,
              const float* lse, const float* delta) {
  const Vec factor = broadcast(scale), limit = broadcast(cap), one = broadcast(1.0f),
            inverse = broadcast(cap != 0 ? 1 / cap : 0.0f);
  each_vector(
      count, [&](int64_t i, int n) __attribute__((always_inline)) {
        Vec s = mul(load_lanes<kF>(scores + i, n), factor), slope = one;
        if (cap != 0) {
          const Vec t = tanh(mul(s, inverse));
          s = mul(limit, t);
          slope = mul(one - t, one + t);
        }
        if (bias) s = add(s, load_lanes<kF>(bias + i, n));
        const Vec p = exp(s - load_lanes<kF>(lse + i, n));
        store_lanes<kF>(scores + i, p, n);
        const Vec inner = load_lanes<kF>(dp + i, n) - load_lanes<kF>(delta + i, n);
        store_lanes<kF>(dp + i, mul(mul(p, inner), slope), n);
      });
}

}  // namespace

attention::AttentionPasses attention_passes() {
  return {widen_row, narrow_row, turn, multiply, softmax, scale_row, gradient};
}

}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
