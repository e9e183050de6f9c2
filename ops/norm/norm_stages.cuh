// The stages that every norm kernel is made of, on one access of N elements: h = x or
// round(x + residual), the sum of squares, the scale, the result.
// Numerics: squares are summed in f32 in chains of at most a few hundred terms, then in trees;
// one rounding at the store. Where a sum leaves the range of f32 (values below 1e-15 with eps = 0,
// or above 1e19) the row is summed and scaled again in f64, element by element.
// Read next: ops/norm/norm_registers.cuh.
#pragma once

#include "device/cluster.cuh"
#include "device/reduce.cuh"
#include "device/vec.cuh"
#include "ops/norm/norm_cuda_config.hpp"

namespace dlblas {

template <NormCudaTraits S>
using NormVec = Vec<S.type, norm_elements(S)>;
template <NormCudaTraits S>
using NormWeightVec = Vec<S.weight, norm_elements(S)>;

/// Accesses to a row's tensors: element offsets from their base.
template <NormCudaTraits S, Cache kCache = Cache::kDefault>
__device__ inline NormVec<S> load_row(const void* base, int64_t offset) {
  return load_vec<S.type, norm_elements(S), S.align, kCache>(base, offset);
}
template <NormCudaTraits S, Cache kCache = Cache::kDefault>
__device__ inline void store_row(void* base, int64_t offset, const NormVec<S>& v) {
  store_vec<S.type, norm_elements(S), S.align, kCache>(base, offset, v);
}
template <NormCudaTraits S, Cache kCache = Cache::kDefault>
__device__ inline NormWeightVec<S> load_weight(const void* base, int64_t offset) {
  return load_vec<S.weight, norm_elements(S), S.weight_align, kCache>(base, offset);
}

/// The same bits, but the compiler cannot know: it keeps the words over a barrier, and not the
/// twice as many floats that it already made of them (102 registers for 64, at 4 accesses of bf16).
template <FloatType T, int N>
__device__ inline Vec<T, N> hide(Vec<T, N> v, uint32_t zero) {
  if constexpr (size_of(T) == 2)
#pragma unroll
    for (int i = 0; i < Vec<T, N>::kWords; ++i) v.words[i] ^= zero;
  return v;
}

/// h = round(x + residual).
template <NormCudaTraits S>
__device__ inline NormVec<S> add_residual(const NormVec<S>& x, const NormVec<S>& residual) {
  NormVec<S> h;
#pragma unroll
  for (int i = 0; i < NormVec<S>::kPairs; ++i) {
    const FloatPair a = x.pair(i), b = residual.pair(i);
    h.set_pair(i, a.low + b.low, a.high + b.high);
  }
  return h;
}

/// A thread's sum of squares, in four chains: a chain is the latency of a row in registers.
struct Squares {
  float chains[4] = {0, 0, 0, 0};

  template <FloatType T, int N>
  __device__ void take(const Vec<T, N>& h) {
#pragma unroll
    for (int i = 0; i < Vec<T, N>::kPairs; ++i) {
      const FloatPair v = h.pair(i);
      float &even = chains[2 * i % 4], &odd = chains[2 * i % 4 + 1];
      even = fmaf(v.low, v.low, even);
      if constexpr (N > 1) odd = fmaf(v.high, v.high, odd);
    }
  }
  __device__ float sum() const { return (chains[0] + chains[1]) + (chains[2] + chains[3]); }
};

/// Did a sum of squares, of a row or a part of one, lose in f32 what the mean needs? Never for NaN.
__device__ inline bool leaves_f32(float sum, const NormCudaParams& p) {
  return sum > 0x1p126f || fmaf(sum, p.inverse_width_f32, p.eps_f32) < 0x1p-100f;
}
__device__ inline bool leaves_f32(double sum, const NormCudaParams& p) {
  return sum > 0x1p126 || fma(sum, p.inverse_width, p.eps) < 0x1p-100;
}

/// 1 / sqrt(mean + eps).
__device__ inline float norm_scale(float sum, const NormCudaParams& p) {
  return reciprocal_root(fmaf(sum, p.inverse_width_f32, p.eps_f32));
}
/// The same of a sum that leaves f32: the root of the mean times a power of 4 that brings it back.
__device__ inline double wide_scale(double sum, const NormCudaParams& p) {
  const double mean = fma(sum, p.inverse_width, p.eps);
  const bool large = mean > 1;
  const double factor = large ? 0x1p-80 : 0x1p110;
  return reciprocal_root(static_cast<float>(mean * factor * factor)) * factor;
}

/// A sum of squares over threads. Where f32 lost it, `exact_part` sums a thread's squares again in
/// f64, and these are added up as multiples of `unit`, in the same code: it is compiled once.
struct SquareSum {
  float sum;
  double unit;  // 1, or f32 lost the sum
  __device__ double exact() const { return sum * unit; }
};
/// The threads agree on whether f32 lost the sum; with kSharedWarps, several sums share a warp, and
/// the others come along and keep their own.
template <bool kSharedWarps = false, typename Sum, typename Exact>
__device__ inline SquareSum sum_squares(float part, const NormCudaParams& p, Sum sum_up,
                                        Exact exact_part) {
  SquareSum total = {0, 1};
  bool again = false;
#pragma unroll 1
  for (;;) {
    total.sum = sum_up(part);
    const bool lost = !again && leaves_f32(total.sum, p);
    if (!(kSharedWarps ? __any_sync(0xffffffffu, lost) : lost)) return total;
    if (lost) {
      const bool large = total.sum > 1;
      total.unit = large ? 0x1p160 : 0x1p-220;
      part = static_cast<float>(exact_part() * (large ? 0x1p-160 : 0x1p220));
    }
    again = true;
  }
}

/// A row's sum of squares, known to all of its threads.
struct RowTotal {
  float sum;
  double exact;
  bool wide;  // f32 cannot scale this row: it is for normalize_wide and `exact`
};

/// From a thread's part to the row's total, over its threads and the cluster's blocks.
template <int kThreads, int kBlocks, typename Exact>
__device__ inline RowTotal row_total(float part, const NormCudaParams& p, RowSum<kThreads>& threads,
                                     ClusterSum<kBlocks>& blocks, Exact exact_part) {
  const SquareSum sum = sum_squares<(kThreads < kWarp)>(
      part, p, [&](float v) { return threads.sum(v); }, exact_part);
  if constexpr (kBlocks == 1) return {sum.sum, sum.exact(), sum.unit != 1};
  const double total = blocks.sum(sum.exact());
  return {static_cast<float>(total), total, leaves_f32(total, p)};
}

/// A row's scale as a product: h · first is exact, a power of 2 that brings rows which leave f32
/// back into it; 1 for all others.
struct RowScale {
  float first, second;
};
__device__ inline RowScale row_scale(double sum, const NormCudaParams& p) {
  if (!leaves_f32(sum, p)) return {1, norm_scale(static_cast<float>(sum), p)};
  const double mean = fma(sum, p.inverse_width, p.eps);
  const float first = mean > 1 ? 0x1p-66f : 0x1p110f;
  const double square = static_cast<double>(first) * first;
  return {first, reciprocal_root(static_cast<float>(mean * square))};
}

/// y = h · scale · (weight + offset), or with h · scale rounded first.
template <NormCudaTraits S>
__device__ inline NormVec<S> normalize(const NormVec<S>& h, const NormWeightVec<S>& weight,
                                       RowScale scale, float offset) {
  NormVec<S> y;
#pragma unroll
  for (int i = 0; i < NormVec<S>::kPairs; ++i) {
    FloatPair v = h.pair(i);
    const FloatPair w = weight.pair(i);
    v.low = v.low * scale.first * scale.second, v.high = v.high * scale.first * scale.second;
    if constexpr (S.cast_before_weight) {
      y.set_pair(i, v.low, v.high);
      v = y.pair(i);
    }
    y.set_pair(i, v.low * (w.low + offset), v.high * (w.high + offset));
  }
  return y;
}

template <NormCudaTraits S>
__device__ inline NormVec<S> normalize(const NormVec<S>& h, const NormWeightVec<S>& weight,
                                       float scale, float offset) {
  return normalize<S>(h, weight, RowScale{1, scale}, offset);
}

// Rows that f32 cannot scale are summed and written element by element in f64: right, a hundred
// times slower, and little code. An element's address is aligned to itself, or to nothing.
template <FloatType T, int kAlign>
__device__ inline float load_element(const void* base, int64_t offset) {
  float v[1];
  load_vec<T, 1, detail::smaller(kAlign, size_of(T))>(base, offset).unpack(v);
  return v[0];
}
template <FloatType T, int kAlign>
__device__ inline void store_element(void* base, int64_t offset, float value) {
  Vec<T, 1> v;
  v.pack({value});
  store_vec<T, 1, detail::smaller(kAlign, size_of(T))>(base, offset, v);
}

template <FloatType T>
__device__ inline void* at_element(const void* base, int64_t offset) {
  return const_cast<char*>(static_cast<const char*>(base)) + offset * size_of(T);
}

/// Squares of `count` elements of h from `offset` on.
template <NormCudaTraits S>
__device__ inline double squares_wide(const void* h, int64_t offset, int count) {
  double sum = 0;
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    const double v = load_element<S.type, S.align>(h, offset + i);
    sum += v * v;
  }
  return sum;
}

/// Where a row's h is: x, or residual_out once it is written.
template <NormCudaTraits S>
__device__ inline const void* h_base(const NormCudaParams& p) {
  return S.add ? p.residual_out : p.x;
}
template <NormCudaTraits S>
__device__ inline int64_t h_offset(const NormCudaParams& p, int64_t row) {
  return row * (S.add ? p.residual_out_stride : p.x_stride);
}

/// As `normalize`, from memory to memory: `count` elements; y may be h.
template <NormCudaTraits S>
__device__ inline void normalize_wide(void* y, const void* h, const void* weight, int count,
                                      double scale, float offset) {
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    double v = load_element<S.type, S.align>(h, i) * scale;
    if constexpr (S.cast_before_weight) v = round_to<S.type>(static_cast<float>(v));
    v *= load_element<S.weight, S.weight_align>(weight, i) + static_cast<double>(offset);
    store_element<S.type, S.align>(y, i, static_cast<float>(v));
  }
}
/// The same of a row from `column` on, h from where it is.
template <NormCudaTraits S>
__device__ inline void normalize_wide(const NormCudaParams& p, int64_t row, int64_t column,
                                      int count, double scale) {
  normalize_wide<S>(at_element<S.type>(p.y, row * p.y_stride + column),
                    at_element<S.type>(h_base<S>(p), h_offset<S>(p, row) + column),
                    at_element<S.weight>(p.weight, column), count, scale, p.weight_offset);
}

}  // namespace dlblas
