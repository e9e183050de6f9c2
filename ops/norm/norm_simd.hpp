// The two passes of a norm over one row, written once for every instruction set.
// In: NormRow (ops/norm/norm_config.hpp). Out: the sum of squares; then y, and with `add`
// residual_out. Numerics: squares in f32, `unroll` vectors of accumulators, f64 across blocks; one
// rounding, at the store. Safe where y is x or residual_out is residual: an element is read before
// it is written, by the same lane. Flow: call > validate > select > compile > [launch].  Read next:
// cpu/simd.hpp.
#pragma once

#include "cpu/simd.hpp"
#include "ops/norm/norm_config.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

/// What the row holds at i: x, or h = x + residual rounded. n < kWidth: only the first n lanes,
/// zeros above.
template <Element E, bool kAdd>
DLBLAS_INLINE Vec row_value(const NormRow& row, int64_t i, int n) {
  if (n < kWidth) {
    const Vec x = load_partial<E>(at<E>(row.x, i), n);
    if constexpr (!kAdd) return x;
    return round<E>(add(x, load_partial<E>(at<E>(row.residual, i), n)));
  }
  const Vec x = load<E>(at<E>(row.x, i));
  if constexpr (!kAdd) return x;
  return round<E>(add(x, load<E>(at<E>(row.residual, i))));
}

/// Leaves the value where the second pass will look for it.
template <Element E, bool kAdd, NormSource S>
DLBLAS_INLINE void keep(const NormRow& row, int64_t i, Vec v, int n) {
  if constexpr (S == NormSource::kScratch) {
    if (n < kWidth) return store_partial<Element::kF32>(row.scratch + i, v, n);
    store<Element::kF32>(row.scratch + i, v);
  } else if constexpr (kAdd) {
    if (n < kWidth) return store_partial<E>(at<E>(row.residual_out, i), v, n);
    store<E>(at<E>(row.residual_out, i), v);
  }
}

/// Sum of squares of elements [begin, end).
template <Element E, bool kAdd, NormSource S, int kUnroll>
DLBLAS_INLINE float sum_block(const NormRow& row, int64_t begin, int64_t end) {
  Vec sums[kUnroll];
  for (int u = 0; u < kUnroll; ++u) sums[u] = zero();
  int64_t i = begin;
  for (; i + kUnroll * kWidth <= end; i += kUnroll * kWidth) {
    for (int u = 0; u < kUnroll; ++u) {
      const Vec v = row_value<E, kAdd>(row, i + u * kWidth, kWidth);
      keep<E, kAdd, S>(row, i + u * kWidth, v, kWidth);
      sums[u] = fma(v, v, sums[u]);
    }
  }
  for (; i + kWidth <= end; i += kWidth) {
    const Vec v = row_value<E, kAdd>(row, i, kWidth);
    keep<E, kAdd, S>(row, i, v, kWidth);
    sums[0] = fma(v, v, sums[0]);
  }
  if (i < end) {
    const int n = static_cast<int>(end - i);
    const Vec v = row_value<E, kAdd>(row, i, n);
    keep<E, kAdd, S>(row, i, v, n);
    sums[kUnroll - 1] = fma(v, v, sums[kUnroll - 1]);
  }
  for (int half = kUnroll / 2; half > 0; half /= 2) {
    for (int u = 0; u < half; ++u) sums[u] = add(sums[u], sums[u + half]);
  }
  return reduce_add(sums[0]);
}

template <Element E, bool kAdd, NormSource S, int kUnroll>
double first_pass(const NormRow& row) {
  double total = 0;
  for (int64_t begin = 0; begin < row.width; begin += kNormBlock) {
    const int64_t end = begin + kNormBlock < row.width ? begin + kNormBlock : row.width;
    total += static_cast<double>(sum_block<E, kAdd, S, kUnroll>(row, begin, end));
  }
  return total;
}

/// How the second pass writes: each result through the caches or past them.
struct Ways {
  bool write_h = false;  // residual_out is still to be written (source=scratch)
  bool stream_y = false;
  bool stream_h = false;
};

template <Element E, bool kStream>
DLBLAS_INLINE void put(void* row, int64_t i, Vec v, int n) {
  if (n < kWidth) return store_partial<E>(at<E>(row, i), v, n);
  if constexpr (kStream) return stream<E>(at<E>(row, i), v);
  store<E>(at<E>(row, i), v);
}

template <Element E, Element W, bool kCast, NormSource S, Ways kWays>
DLBLAS_INLINE void write_at(const NormRow& row, int64_t i, Vec scale, Vec offset, int n) {
  constexpr Element kFrom = S == NormSource::kScratch ? Element::kF32 : E;
  const void* from = S == NormSource::kScratch ? row.scratch : row.normed;
  const bool whole = n == kWidth;
  const Vec v =
      whole ? load<kFrom>(at<kFrom>(from, i)) : load_partial<kFrom>(at<kFrom>(from, i), n);
  const Vec w = whole ? load<W>(at<W>(row.weight, i)) : load_partial<W>(at<W>(row.weight, i), n);
  if constexpr (kWays.write_h) put<E, kWays.stream_h>(row.residual_out, i, v, n);
  Vec normed = mul(v, scale);
  if constexpr (kCast) normed = round<E>(normed);
  put<E, kWays.stream_y>(row.y, i, mul(normed, add(w, offset)), n);
}

template <Element E>
DLBLAS_INLINE void prefetch_next(const NormRow& row, int64_t i, int elements) {
  if (row.next_x == nullptr) return;
  for (int e = 0; e < elements; e += 64 / kElementBytes<E>) {
    prefetch(at<E>(row.next_x, i + e));
    if (row.next_residual != nullptr) prefetch(at<E>(row.next_residual, i + e));
  }
}

/// Elements [i, width).
template <Element E, Element W, bool kCast, NormSource S, int kUnroll, Ways kWays>
DLBLAS_INLINE void write_from(const NormRow& row, int64_t i, float scale) {
  const Vec s = broadcast(scale), offset = broadcast(row.weight_offset);
  for (; i + kUnroll * kWidth <= row.width; i += kUnroll * kWidth) {
    prefetch_next<E>(row, i, kUnroll * kWidth);
    for (int u = 0; u < kUnroll; ++u) {
      write_at<E, W, kCast, S, kWays>(row, i + u * kWidth, s, offset, kWidth);
    }
  }
  for (; i + kWidth <= row.width; i += kWidth) {
    write_at<E, W, kCast, S, kWays>(row, i, s, offset, kWidth);
  }
  if (i < row.width) {
    write_at<E, W, kCast, S, kWays>(row, i, s, offset, static_cast<int>(row.width - i));
  }
}

/// Elements before the first address fit for streaming; -1 when there is none.
template <Element E>
DLBLAS_INLINE int head_of(const void* row) {
  const int past = static_cast<int>(reinterpret_cast<uintptr_t>(row) % kVectorBytes<E>);
  if (past % kElementBytes<E> != 0) return -1;
  return past == 0 ? 0 : (kVectorBytes<E> - past) / kElementBytes<E>;
}

template <Element E, Element W, bool kCast, NormSource S, int kUnroll, bool kWriteH, bool kStream>
void second_pass(const NormRow& row, float scale) {
  constexpr Ways kCached = {kWriteH, false, false};
  if constexpr (kStream) {
    const int head = head_of<E>(row.y);
    if (head >= 0 && head < row.width) {
      if (head > 0) {
        const Vec s = broadcast(scale), offset = broadcast(row.weight_offset);
        write_at<E, W, kCast, S, kCached>(row, 0, s, offset, head);
      }
      const bool both = kWriteH && head_of<E>(row.residual_out) == head;
      constexpr Ways kOne = {kWriteH, true, false}, kBoth = {kWriteH, true, kWriteH};
      if (both) return write_from<E, W, kCast, S, kUnroll, kBoth>(row, head, scale);
      return write_from<E, W, kCast, S, kUnroll, kOne>(row, head, scale);
    }
  }
  write_from<E, W, kCast, S, kUnroll, kCached>(row, 0, scale);
}

template <Element E, int kUnroll>
decltype(NormPasses::first) pick_first(bool adds, NormSource source) {
  constexpr auto kRow = NormSource::kRow, kScratch = NormSource::kScratch;
  if (source == kRow) {
    return adds ? first_pass<E, true, kRow, kUnroll> : first_pass<E, false, kRow, kUnroll>;
  }
  return adds ? first_pass<E, true, kScratch, kUnroll> : first_pass<E, false, kScratch, kUnroll>;
}

template <Element E, Element W, bool kCast, int kUnroll>
decltype(NormPasses::second) pick_second(bool adds, const NormConfig& config) {
  constexpr auto kRow = NormSource::kRow, kScratch = NormSource::kScratch;
  const bool streams = config.store == NormStore::kStreamed;
  if (config.source == kRow) {
    return streams ? second_pass<E, W, kCast, kRow, kUnroll, false, true>
                   : second_pass<E, W, kCast, kRow, kUnroll, false, false>;
  }
  if (adds) {
    return streams ? second_pass<E, W, kCast, kScratch, kUnroll, true, true>
                   : second_pass<E, W, kCast, kScratch, kUnroll, true, false>;
  }
  return streams ? second_pass<E, W, kCast, kScratch, kUnroll, false, true>
                 : second_pass<E, W, kCast, kScratch, kUnroll, false, false>;
}

template <Element E, int kUnroll>
NormPasses pick(const NormTraits& traits, const NormConfig& config) {
  NormPasses passes = {pick_first<E, kUnroll>(traits.add, config.source), nullptr};
  if constexpr (E == Element::kF32) {  // a value in f32 is already rounded to f32
    passes.second = pick_second<E, E, false, kUnroll>(traits.add, config);
  } else if (traits.weight == E) {
    passes.second = traits.cast_before_weight
                        ? pick_second<E, E, true, kUnroll>(traits.add, config)
                        : pick_second<E, E, false, kUnroll>(traits.add, config);
  } else {
    passes.second = traits.cast_before_weight
                        ? pick_second<E, Element::kF32, true, kUnroll>(traits.add, config)
                        : pick_second<E, Element::kF32, false, kUnroll>(traits.add, config);
  }
  return passes;
}

template <Element E>
NormPasses pick(const NormTraits& traits, const NormConfig& config) {
  switch (config.unroll) {
    case 1:
      return pick<E, 1>(traits, config);
    case 4:
      return pick<E, 4>(traits, config);
    default:
      return pick<E, 8>(traits, config);
  }
}

}  // namespace

NormPasses norm_passes(const NormTraits& traits, const NormConfig& config) {
  switch (traits.element) {
    case Element::kF32:
      return pick<Element::kF32>(traits, config);
    case Element::kF16:
      return pick<Element::kF16>(traits, config);
    default:
      return pick<Element::kBF16>(traits, config);
  }
}

}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
