// Attention over blocks of keys, compiled once per instruction set.
// In: rows of keys and values, queries in f32. Out: AttendPasses. Numerics: f32; a dot product
// accumulates in 16 lanes over a key's columns, o in one chain per block of keys. Flow: call >
// validate > select > compile > [launch].  Read next: cpu/math.hpp, attend_cpu.hpp.
#pragma once

#include "cpu/lines.hpp"
#include "ops/attention/attend_config.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

constexpr int kChains = 16 / kWidth;            // vectors of a dot product's sum
constexpr int kTogether = kWidth == 4 ? 2 : 4;  // queries that share what is read of a key
constexpr int kVectors = kWidth == 16 ? 4 : 2;  // of o, held while a block's values pass

constexpr int64_t kLine = 64, kAhead = 8;  // bytes, and rows of a cache that are fetched ahead

/// Fetches row j + kAhead: rows of a cache lie so far apart that the hardware does not.
template <DType E>
DLBLAS_INLINE void fetch_ahead(const attention::AttendRows& rows, int64_t j) {
  if (j + kAhead >= rows.count) return;
  const auto* row = static_cast<const char*>(rows.rows[j + kAhead]);
  const auto* const end = static_cast<const char*>(at<E>(row, rows.width));
  for (; row < end; row += kLine) prefetch(row);
}

/// Dot products of kCount queries with one key.
template <DType E, int kCount>
DLBLAS_INLINE void dot(const void* key, int64_t width, const float* q, float* scores, int64_t ld) {
  Vec sums[kCount][kChains];
  DLBLAS_UNROLL for (int m = 0; m < kCount; ++m) DLBLAS_UNROLL for (int c = 0; c < kChains; ++c)
      sums[m][c] = zero();
  int64_t i = 0;
  for (; i + 16 <= width; i += 16) DLBLAS_UNROLL for (int c = 0; c < kChains; ++c) {
      const int64_t place = i + c * kWidth;
      const Vec k = load<E>(at<E>(key, place));
      DLBLAS_UNROLL for (int m = 0; m < kCount; ++m) sums[m][c] =
          fma(load<kF>(q + m * width + place), k, sums[m][c]);
    }
  for (; i < width; i += kWidth) {
    const int n = width - i < kWidth ? static_cast<int>(width - i) : kWidth;
    const Vec k = load_lanes<E>(at<E>(key, i), n);
    DLBLAS_UNROLL for (int m = 0; m < kCount; ++m) sums[m][0] =
        fma(load_lanes<kF>(q + m * width + i, n), k, sums[m][0]);
  }
  DLBLAS_UNROLL for (int m = 0; m < kCount; ++m) {
    Vec sum = sums[m][0];
    DLBLAS_UNROLL for (int c = 1; c < kChains; ++c) sum = sum + sums[m][c];
    scores[m * ld] = reduce_add(sum);
  }
}
template <DType E>
DLBLAS_OUTLINE void scores_of(const attention::AttendRows& keys, const float* q, int64_t queries,
                              float* scores, int64_t ld) {
  int64_t m = 0;
  for (; m + kTogether <= queries; m += kTogether)
    for (int64_t j = 0; j < keys.count; ++j) {
      if (m == 0) fetch_ahead<E>(keys, j);
      dot<E, kTogether>(keys.rows[j], keys.width, q + m * keys.width, scores + m * ld + j, ld);
    }
  for (; m < queries; ++m)
    for (int64_t j = 0; j < keys.count; ++j) {
      if (m == 0) fetch_ahead<E>(keys, j);
      dot<E, 1>(keys.rows[j], keys.width, q + m * keys.width, scores + m * ld + j, ld);
    }
}
void scores_with(const attention::AttendRows& keys, const float* q, int64_t queries, float* scores,
                 int64_t ld) {
  if (keys.type == DType::kF32)
    scores_of<DType::kF32>(keys, q, queries, scores, ld);
  else if (keys.type == DType::kF16)
    scores_of<DType::kF16>(keys, q, queries, scores, ld);
  else
    scores_of<DType::kBF16>(keys, q, queries, scores, ld);
}

float powers_of(float* scores, int64_t count, float factor, float cap, float* most, float* sum) {
  const float infinite = __builtin_inff();
  const float inverse = cap != 0 ? factor / cap : 0;
  Vec largest = broadcast(*most);
  for (int64_t j = 0; j < count; j += kWidth) {
    const int n = count - j < kWidth ? static_cast<int>(count - j) : kWidth;
    Vec s = load_lanes<kF>(scores + j, n);
    s = cap != 0 ? broadcast(cap) * tanh(s * broadcast(inverse)) : s * broadcast(factor);
    store_partial<kF>(scores + j, s, n);
    if (n < kWidth) s = choose(lanes_below(n), s, broadcast(-infinite));
    largest = max_number(s, largest);  // of NaN and a number the number: its power is NaN
  }
  float lanes[kWidth], before = *most, now = before;
  store<kF>(lanes, largest);
  for (int i = 0; i < kWidth; ++i) now = lanes[i] > now ? lanes[i] : now;
  const Vec base = broadcast(now == -infinite ? 0 : now);
  Vec total = zero();
  for (int64_t j = 0; j < count; j += kWidth) {
    const int n = count - j < kWidth ? static_cast<int>(count - j) : kWidth;
    Vec p = exp(load_lanes<kF>(scores + j, n) - base);
    store_partial<kF>(scores + j, p, n);
    if (n < kWidth) p = choose(lanes_below(n), p, zero());
    total = total + p;
  }
  const float scale = before == now         ? 1
                      : before == -infinite ? 0
                                            : [&] {
                                                store<kF>(lanes, exp(broadcast(before - now)));
                                                return lanes[0];
                                              }();
  *most = now;
  *sum = *sum * scale + reduce_add(total);
  return scale;
}

/// kCount queries; kParts vectors of columns, from `first` on.
template <DType E, int kCount, int kParts>
DLBLAS_INLINE void mix_columns(const attention::AttendRows& values, const float* p, int64_t ld,
                               const float* scale, float* o, int64_t first, int n) {
  Vec sums[kCount][kParts];
  DLBLAS_UNROLL for (int m = 0; m < kCount; ++m) DLBLAS_UNROLL for (int c = 0; c < kParts; ++c)
      sums[m][c] = zero();
  for (int64_t j = 0; j < values.count; ++j) {
    if (first == 0) fetch_ahead<E>(values, j);
    DLBLAS_UNROLL for (int c = 0; c < kParts; ++c) {
      const Vec v = load_lanes<E>(at<E>(values.rows[j], first + c * kWidth), n);
      DLBLAS_UNROLL for (int m = 0; m < kCount; ++m) sums[m][c] =
          fma(broadcast(p[m * ld + j]), v, sums[m][c]);
    }
  }
  DLBLAS_UNROLL for (int m = 0; m < kCount; ++m) DLBLAS_UNROLL for (int c = 0; c < kParts; ++c) {
    float* const to = o + m * values.width + first + c * kWidth;
    const Vec all = fma(load_lanes<kF>(to, n), broadcast(scale[m]), sums[m][c]);
    if (n == kWidth)
      store<kF>(to, all);
    else
      store_partial<kF>(to, all, n);
  }
}
template <DType E, int kCount>
DLBLAS_OUTLINE void mix_queries(const attention::AttendRows& values, const float* p, int64_t ld,
                                const float* scale, float* o) {
  int64_t d = 0;
  for (; d + kVectors * kWidth <= values.width; d += kVectors * kWidth)
    mix_columns<E, kCount, kVectors>(values, p, ld, scale, o, d, kWidth);
  for (; d < values.width; d += kWidth) {
    const int n = values.width - d < kWidth ? static_cast<int>(values.width - d) : kWidth;
    mix_columns<E, kCount, 1>(values, p, ld, scale, o, d, n);
  }
}
template <DType E>
DLBLAS_INLINE void mix_of(const attention::AttendRows& values, const float* p, int64_t ld,
                          const float* scale, int64_t queries, float* o) {
  int64_t m = 0;
  for (; m + kTogether <= queries; m += kTogether)
    mix_queries<E, kTogether>(values, p + m * ld, ld, scale + m, o + m * values.width);
  for (; m < queries; ++m)
    mix_queries<E, 1>(values, p + m * ld, ld, scale + m, o + m * values.width);
}
void mix_with(const attention::AttendRows& values, const float* p, int64_t ld, const float* scale,
              int64_t queries, float* o) {
  if (values.type == DType::kF32)
    mix_of<DType::kF32>(values, p, ld, scale, queries, o);
  else if (values.type == DType::kF16)
    mix_of<DType::kF16>(values, p, ld, scale, queries, o);
  else
    mix_of<DType::kBF16>(values, p, ld, scale, queries, o);
}

}  // namespace

attention::AttendPasses attend_passes() {
  return {widen_row, narrow_row, scores_with, powers_of, mix_with};
}

}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
