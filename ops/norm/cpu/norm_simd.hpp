// The two passes of a norm over one row, written once for every instruction set.
// In: NormRow (ops/norm/cpu/norm_config.hpp). Out: the sum of squares; then y, and with `add`
// residual_out. Numerics: squares in f32, `unroll` vectors of accumulators, f64 across blocks; one
// rounding, at the store. Safe where y is x or residual_out is residual: an element is read before
// it is written, by the same lane. Flow: call > validate > select > compile > [launch].  Read next:
// cpu/simd.hpp.
#pragma once

#include "ops/norm/cpu/norm_config.hpp"
#include "ops/norm/cpu/norm_pair_simd.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

/// Elements [i, i + kPair) of x; with kAdd h = x + residual, rounded, left where the second pass
/// looks.
template <Element E, bool kAdd>
DLBLAS_INLINE Pair take2(const NormRow& row, int64_t i) {
  const Pair x = load2<E, E>(at<E>(row.x, i));
  if constexpr (!kAdd) return x;
  const Pair h = round2<E, kNans<E, E>>(add2(x, load2<E, E>(at<E>(row.residual, i))));
  store2<E, kNans<E, E>>(at<E>(row.kept, i), h);
  return h;
}

/// The same for n <= kWidth elements, zeros above.
template <Element E, bool kAdd>
DLBLAS_INLINE Vec take_partial(const NormRow& row, int64_t i, int n) {
  const Vec x = load_partial<E>(at<E>(row.x, i), n);
  if constexpr (!kAdd) return x;
  const Vec h = round<E>(add(x, load_partial<E>(at<E>(row.residual, i), n)));
  store_partial<E>(at<E>(row.kept, i), h, n);
  return h;
}

/// Sum of squares of elements [begin, end).
template <Element E, bool kAdd, int kUnroll>
DLBLAS_INLINE float sum_block(const NormRow& row, int64_t begin, int64_t end) {
  Pair sums[kUnroll];
  for (int u = 0; u < kUnroll; ++u) sums[u] = {zero(), zero()};
  int64_t i = begin;
  for (; i + kUnroll * kPair <= end; i += kUnroll * kPair) {
    for (int u = 0; u < kUnroll; ++u) {
      const Pair v = take2<E, kAdd>(row, i + u * kPair);
      sums[u] = fma2(v, v, sums[u]);
    }
  }
  for (; i + kPair <= end; i += kPair) {
    const Pair v = take2<E, kAdd>(row, i);
    sums[0] = fma2(v, v, sums[0]);
  }
  for (; i < end; i += kWidth) {
    const Vec v = take_partial<E, kAdd>(row, i, lanes_left(i, end));
    sums[0].a = fma(v, v, sums[0].a);
  }
  for (int half = kUnroll / 2; half > 0; half /= 2) {
    for (int u = 0; u < half; ++u) sums[u] = add2(sums[u], sums[u + half]);
  }
  return reduce_add(add(sums[0].a, sums[0].b));
}

template <Element E, bool kAdd, int kUnroll>
double first_pass(const NormRow& row) {
  double total = 0;
  for (int64_t begin = 0; begin < row.width; begin += kNormBlock) {
    const int64_t end = begin + kNormBlock < row.width ? begin + kNormBlock : row.width;
    total += static_cast<double>(sum_block<E, kAdd, kUnroll>(row, begin, end));
  }
  return total;
}

/// How the second pass writes: each result through the caches or past them.
struct Ways {
  bool write_h = false;  // residual_out is still to be written (source=scratch)
  bool stream_y = false;
  bool stream_h = false;
};

template <Element E, Nans N, bool kStream>
DLBLAS_INLINE void put2(void* row, int64_t i, Pair v) {
  if constexpr (kStream) return stream2<E, N>(at<E>(row, i), v);
  store2<E, N>(at<E>(row, i), v);
}

template <Element E, Element W, bool kCast, Ways kWays>
DLBLAS_INLINE void write2(const NormRow& row, int64_t i, Vec scale, Vec offset) {
  const Pair v = load2<E, E>(at<E>(row.normed, i));
  const Pair w = load2<W, E>(at<W>(row.weight, i));
  if constexpr (kWays.write_h) put2<E, kNans<E, E>, kWays.stream_h>(row.residual_out, i, v);
  Pair normed = mul2(v, {scale, scale});
  if constexpr (kCast) normed = round2<E, kNans<E, E>>(normed);
  put2<E, kNans<E, W>, kWays.stream_y>(row.y, i, mul2(normed, add2(w, {offset, offset})));
}

/// n <= kWidth elements, through the caches.
template <Element E, Element W, bool kCast, bool kWriteH>
DLBLAS_INLINE void write_partial(const NormRow& row, int64_t i, Vec scale, Vec offset, int n) {
  const Vec v = load_partial<E>(at<E>(row.normed, i), n);
  const Vec w = load_partial<W>(at<W>(row.weight, i), n);
  if constexpr (kWriteH) store_partial<E>(at<E>(row.residual_out, i), v, n);
  Vec normed = mul(v, scale);
  if constexpr (kCast) normed = round<E>(normed);
  store_partial<E>(at<E>(row.y, i), mul(normed, add(w, offset)), n);
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
template <Element E, Element W, bool kCast, int kUnroll, Ways kWays>
DLBLAS_INLINE void write_from(const NormRow& row, int64_t i, float scale) {
  const Vec s = broadcast(scale), offset = broadcast(row.weight_offset);
  for (; i + kUnroll * kPair <= row.width; i += kUnroll * kPair) {
    prefetch_next<E>(row, i, kUnroll * kPair);
    for (int u = 0; u < kUnroll; ++u) write2<E, W, kCast, kWays>(row, i + u * kPair, s, offset);
  }
  for (; i + kPair <= row.width; i += kPair) write2<E, W, kCast, kWays>(row, i, s, offset);
  for (; i < row.width; i += kWidth) {
    write_partial<E, W, kCast, kWays.write_h>(row, i, s, offset, lanes_left(i, row.width));
  }
}

/// Elements before the first address fit for streaming; -1 when there is none.
template <Element E>
DLBLAS_INLINE int head_of(const void* row) {
  const int past = static_cast<int>(reinterpret_cast<uintptr_t>(row) % (2 * kVectorBytes<E>));
  if (past % kElementBytes<E> != 0) return -1;
  return past == 0 ? 0 : (2 * kVectorBytes<E> - past) / kElementBytes<E>;
}

template <Element E, Element W, bool kCast, int kUnroll, bool kWriteH, bool kStream>
void second_pass(const NormRow& row, float scale) {
  constexpr Ways kCached = {kWriteH, false, false};
  if constexpr (kStream) {
    const int head = head_of<E>(row.y);
    if (head >= 0 && head < row.width) {
      const Vec s = broadcast(scale), offset = broadcast(row.weight_offset);
      for (int i = 0; i < head; i += kWidth) {
        write_partial<E, W, kCast, kWriteH>(row, i, s, offset, lanes_left(i, head));
      }
      constexpr Ways kOne = {kWriteH, true, false}, kBoth = {kWriteH, true, kWriteH};
      if (kWriteH && head_of<E>(row.residual_out) == head) {
        return write_from<E, W, kCast, kUnroll, kBoth>(row, head, scale);
      }
      return write_from<E, W, kCast, kUnroll, kOne>(row, head, scale);
    }
  }
  write_from<E, W, kCast, kUnroll, kCached>(row, 0, scale);
}

template <Element E, Element W, bool kCast, int kUnroll>
decltype(NormPasses::second) pick_second(const NormTraits& traits, const NormConfig& config) {
  const bool streams = config.store == NormStore::kStreamed;
  if (traits.add && config.source == NormSource::kScratch) {
    return streams ? second_pass<E, W, kCast, kUnroll, true, true>
                   : second_pass<E, W, kCast, kUnroll, true, false>;
  }
  return streams ? second_pass<E, W, kCast, kUnroll, false, true>
                 : second_pass<E, W, kCast, kUnroll, false, false>;
}

template <Element E, int kUnroll>
NormPasses pick(const NormTraits& traits, const NormConfig& config) {
  NormPasses passes = {traits.add ? first_pass<E, true, kUnroll> : first_pass<E, false, kUnroll>,
                       nullptr};
  if constexpr (E == Element::kF32) {  // a value in f32 is already rounded to f32
    passes.second = pick_second<E, E, false, kUnroll>(traits, config);
  } else if (traits.weight == E) {
    passes.second = traits.cast_before_weight ? pick_second<E, E, true, kUnroll>(traits, config)
                                              : pick_second<E, E, false, kUnroll>(traits, config);
  } else {
    passes.second = traits.cast_before_weight
                        ? pick_second<E, Element::kF32, true, kUnroll>(traits, config)
                        : pick_second<E, Element::kF32, false, kUnroll>(traits, config);
  }
  return passes;
}

template <Element E>
NormPasses pick(const NormTraits& traits, const NormConfig& config) {
  switch (config.unroll) {
    case 1:
      return pick<E, 1>(traits, config);
    case 2:
      return pick<E, 2>(traits, config);
    default:
      return pick<E, 4>(traits, config);
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
