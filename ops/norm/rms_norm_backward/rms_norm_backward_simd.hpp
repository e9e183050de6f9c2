// The two passes of rms_norm_backward over one row, written once for every instruction set.
// In: BackwardRow (rms_norm_backward_config.hpp). Out: the sums behind r and s; then dx, and the
// row's terms added to a partial dweight in f32. Numerics: sums in f32, `unroll` vectors of
// accumulators, f64 across blocks; one rounding, at the store. Flow: call > validate > select >
// compile > [launch].  Read next: cpu/simd.hpp.
#pragma once

#include "ops/norm/rms_norm_backward/rms_norm_backward_config.hpp"
#include "ops/norm/rms_norm_backward/rms_norm_backward_pair_simd.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

DLBLAS_INLINE Pair splat2(Vec v) { return {v, v}; }

/// g = dy · (weight + weight_offset) of elements [i, i + kPair).
template <DType E, DType W>
DLBLAS_INLINE Pair scaled2(const norm::BackwardRow& row, Pair dy, int64_t i) {
  const Pair w = load2<W, E>(at<W>(row.weight, i));
  return mul2(dy, add2(w, splat2(broadcast(row.weight_offset))));
}
template <DType W>
DLBLAS_INLINE Vec scaled_partial(const norm::BackwardRow& row, Vec dy, int64_t i, int n) {
  const Vec w = load_partial<W>(at<W>(row.weight, i), n);
  return mul(dy, add(w, broadcast(row.weight_offset)));
}

template <int kUnroll>
DLBLAS_INLINE float reduce_all(Pair* sums) {
  for (int half = kUnroll / 2; half > 0; half /= 2) {
    for (int u = 0; u < half; ++u) sums[u] = add2(sums[u], sums[u + half]);
  }
  return reduce_add(add(sums[0].a, sums[0].b));
}

/// Adds elements [begin, end) to the two sums.
template <DType E, DType W, int kUnroll>
DLBLAS_INLINE void sum_gradient_block(const norm::BackwardRow& row, int64_t begin, int64_t end,
                                      norm::BackwardSums& total) {
  Pair squares[kUnroll], products[kUnroll];
  for (int u = 0; u < kUnroll; ++u) squares[u] = products[u] = {zero(), zero()};
  auto step = [&](int u, int64_t i) __attribute__((always_inline)) {
    const Pair x = load2<E, E>(at<E>(row.x, i));
    const Pair g = scaled2<E, W>(row, load2<E, E>(at<E>(row.dy, i)), i);
    squares[u] = fma2(x, x, squares[u]);
    products[u] = fma2(g, x, products[u]);
  };
  int64_t i = begin;
  for (; i + kUnroll * kPair <= end; i += kUnroll * kPair) {
    for (int u = 0; u < kUnroll; ++u) step(u, i + u * kPair);
  }
  for (; i + kPair <= end; i += kPair) step(0, i);
  for (; i < end; i += kWidth) {
    const int n = lanes_left(i, end);
    const Vec x = load_partial<E>(at<E>(row.x, i), n);
    const Vec g = scaled_partial<W>(row, load_partial<E>(at<E>(row.dy, i), n), i, n);
    squares[0].a = fma(x, x, squares[0].a);
    products[0].a = fma(g, x, products[0].a);
  }
  total.squares += static_cast<double>(reduce_all<kUnroll>(squares));
  total.products += static_cast<double>(reduce_all<kUnroll>(products));
}

template <DType E, DType W, int kUnroll>
norm::BackwardSums sum_gradient(const norm::BackwardRow& row) {
  norm::BackwardSums total = {0, 0};
  for (int64_t begin = 0; begin < row.width; begin += norm::kBackwardBlock) {
    const int64_t end =
        begin + norm::kBackwardBlock < row.width ? begin + norm::kBackwardBlock : row.width;
    sum_gradient_block<E, W, kUnroll>(row, begin, end, total);
  }
  return total;
}

/// What is constant along a row, broadcast to every lane.
struct Scales {
  Vec r, minus_s;
};

/// Stores dx, and adds dy · n to dweight, with n = x · r.
template <DType E, DType W, bool kAdd, bool kCast>
DLBLAS_INLINE void write_gradient2(const norm::BackwardRow& row, int64_t i, Scales k) {
  constexpr Nans kN = kNans<E, W>;
  const Pair x = load2<E, E>(at<E>(row.x, i)), dy = load2<E, E>(at<E>(row.dy, i));
  Pair n = mul2(x, splat2(k.r));
  const Pair t = fma2(n, splat2(k.minus_s), scaled2<E, W>(row, dy, i));
  if constexpr (kAdd) {
    const Pair residual = load2<E, E>(at<E>(row.dresidual, i));
    store2<E, kN>(at<E>(row.dx, i), fma2(t, splat2(k.r), residual));
  } else {
    store2<E, kN>(at<E>(row.dx, i), mul2(t, splat2(k.r)));
  }
  if constexpr (kCast) n = round2<E, kNans<E, E>>(n);
  // In lane order: no permutation per row. The host undoes it with `place`.
  float* sum = row.dweight + i;
  store<DType::kF32>(sum, fma(dy.a, n.a, load<DType::kF32>(sum)));
  store<DType::kF32>(sum + kWidth, fma(dy.b, n.b, load<DType::kF32>(sum + kWidth)));
}

/// The same for m <= kWidth elements.
template <DType E, DType W, bool kCast>
DLBLAS_ONCE void write_gradient_partial(const norm::BackwardRow& row, int64_t i, Scales k, int m,
                                        bool adds) {
  const Vec x = load_partial<E>(at<E>(row.x, i), m), dy = load_partial<E>(at<E>(row.dy, i), m);
  Vec n = mul(x, k.r);
  const Vec t = fma(n, k.minus_s, scaled_partial<W>(row, dy, i, m));
  Vec dx;
  if (adds)
    dx = fma(t, k.r, load_partial<E>(at<E>(row.dresidual, i), m));
  else
    dx = mul(t, k.r);
  store_partial<E>(at<E>(row.dx, i), dx, m);
  if constexpr (kCast) n = round<E>(n);
  float* sum = row.dweight + i;
  const Vec before = load_partial<DType::kF32>(sum, m);
  store_partial<DType::kF32>(sum, fma(dy, n, before), m);
}

template <DType E, DType W, bool kAdd, bool kCast>
void write_gradient(const norm::BackwardRow& row, float r, float s) {
  const Scales k = {broadcast(r), broadcast(-s)};
  int64_t i = 0;
  for (; i + kPair <= row.width; i += kPair) write_gradient2<E, W, kAdd, kCast>(row, i, k);
  for (; i < row.width; i += kWidth) {
    write_gradient_partial<E, W, kCast>(row, i, k, lanes_left(i, row.width), kAdd);
  }
}

template <DType E, DType W>
norm::BackwardPasses pick_gradient(const norm::RmsNormBackwardTraits& traits,
                                   const norm::RmsNormBackwardConfig& config) {
  norm::BackwardPasses passes = {};
  passes.sum = config.unroll == 1   ? sum_gradient<E, W, 1>
               : config.unroll == 2 ? sum_gradient<E, W, 2>
                                    : sum_gradient<E, W, 4>;
  const bool cast = traits.cast_before_weight && E != DType::kF32;
  if (traits.add) {
    passes.write = cast ? write_gradient<E, W, true, true> : write_gradient<E, W, true, false>;
  } else {
    passes.write = cast ? write_gradient<E, W, false, true> : write_gradient<E, W, false, false>;
  }
  // Finds which element each lane of a pair holds: load2 of the numbers 0, 1, 2, ….
  float numbers[kPair], lanes[kPair];
  for (int i = 0; i < kPair; ++i) numbers[i] = static_cast<float>(i);
  const Pair order = load2<DType::kF32, E>(numbers);
  store<DType::kF32>(lanes, order.a);
  store<DType::kF32>(lanes + kWidth, order.b);
  for (int i = 0; i < kPair; ++i) {
    passes.place[static_cast<int>(lanes[i])] = static_cast<unsigned char>(i);
  }
  passes.pair = kPair;
  return passes;
}

}  // namespace

norm::BackwardPasses backward_passes(const norm::RmsNormBackwardTraits& traits,
                                     const norm::RmsNormBackwardConfig& config) {
  const bool same = traits.weight == traits.element;
  switch (traits.element) {
    case DType::kF32:
      return pick_gradient<DType::kF32, DType::kF32>(traits, config);
    case DType::kF16:
      return same ? pick_gradient<DType::kF16, DType::kF16>(traits, config)
                  : pick_gradient<DType::kF16, DType::kF32>(traits, config);
    default:
      return same ? pick_gradient<DType::kBF16, DType::kBF16>(traits, config)
                  : pick_gradient<DType::kBF16, DType::kF32>(traits, config);
  }
}

}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
