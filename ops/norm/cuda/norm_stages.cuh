// The stages of every norm kernel, on one access of N elements: h = x or
// round(x + residual), the sum of squares, the scale, the result.
// Numerics: squares are summed in f32 in chains of at most a few hundred terms, then in trees;
// one rounding at the store. If a sum leaves the range of f32 (values below 1e-15 with eps = 0, or
// above 1e19), the row is summed again in f64, element by element, and scaled in two exact steps.
// Read next: ops/norm/cuda/norm_ring.cuh.
#pragma once

#include "device/reduce.cuh"
#include "device/scale.cuh"
#include "device/words.cuh"
#include "ops/norm/cuda/norm_cuda_config.hpp"

namespace dlblas::norm {

template <NormCudaTraits S>
using NormVec = Vec<S.type, norm_elements(S)>;
template <NormCudaTraits S>
using NormWeightVec = Vec<S.weight, norm_elements(S)>;

/// Accesses to a row's tensors, at element offsets from a base.
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
  if constexpr (S.weight_align == 0)
    return NormWeightVec<S>::zero();  // and an offset of 1
  else
    return load_vec<S.weight, norm_elements(S), S.weight_align, kCache>(base, offset);
}

/// Returns the same bits, which the compiler cannot know: across a barrier it keeps the packed
/// words, not the twice as many floats unpacked from them before (64 registers instead of 102, for
/// 4 accesses of bf16).
template <DType T, int N>
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
  for (int i = 0; i < NormVec<S>::kWords; ++i)
    h.words[i] = add_words<S.type>(x.words[i], residual.words[i]);
  return h;
}

/// A thread's sum of squares, in four chains: the chain sets the latency of a row in registers.
struct Squares {
  float chains[4] = {0, 0, 0, 0};

  template <DType T, int N>
  __device__ void take(const Vec<T, N>& h) {
    constexpr int kWords = Vec<T, N>::kWords;
    if constexpr (T != DType::kF32) {
      add_squares<T, kWords>(h.words, chains);
    } else {
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        const float v = float_from_bits(h.words[i]);
        chains[i % 4] = fmaf(v, v, chains[i % 4]);
      }
    }
  }
  __device__ float sum() const { return (chains[0] + chains[1]) + (chains[2] + chains[3]); }
};

/// True if a sum of squares, of a row or a part of one, lost in f32 what the mean needs; false for
/// NaN. A large eps pushes the mean out of f32's range, and is itself infinite in f32 above 3.4e38.
__device__ inline bool leaves_f32(float sum, const NormCudaParams& p) {
  const float mean = fmaf(sum, p.inverse_width_f32, p.eps_f32);
  return sum > 0x1p126f || mean < 0x1p-100f || mean > 0x1p126f;
}
__device__ inline bool leaves_f32(double sum, const NormCudaParams& p) {
  const double mean = fma(sum, p.inverse_width, p.eps);
  return sum > 0x1p126 || mean < 0x1p-100 || mean > 0x1p126;
}

/// 1 / sqrt(mean + eps).
__device__ inline float norm_scale(float sum, const NormCudaParams& p) {
  return reciprocal_root(fmaf(sum, p.inverse_width_f32, p.eps_f32));
}
template <DType T>
__device__ inline RowScale<T> row_scale(double sum, const NormCudaParams& p) {
  if (leaves_f32(sum, p)) return RowScale<T>::wide_root(fma(sum, p.inverse_width, p.eps));
  return {1, norm_scale(static_cast<float>(sum), p)};
}

/// y = h · scale · (weight + offset), or with h · scale rounded first. The first factor multiplies
/// packed words: the compiler, which does not know its value, keeps these across a barrier, not the
/// twice as many floats unpacked from them before (64 registers instead of 102, for 4 accesses of
/// bf16).
template <NormCudaTraits S>
__device__ inline NormVec<S> normalize(NormVec<S> h, const NormWeightVec<S>& weight,
                                       RowScale<S.type> scale, float offset) {
  NormVec<S> y;
  if constexpr (S.type == DType::kF32) {
#pragma unroll
    for (int i = 0; i < NormVec<S>::kWords; ++i)
      y.words[i] = bits_of_float(float_from_bits(h.words[i]) * scale.first * scale.second *
                                 (float_from_bits(weight.words[i]) + offset));
  } else {
    const uint32_t first = scale.first_pair();
    constexpr int kWords = NormVec<S>::kWords;
    if constexpr (S.weight == S.type) {
      normalize_words<S.type, S.cast_before_weight, kWords>(y.words, h.words, weight.words, first,
                                                            scale.second, offset);
    } else {
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        FloatPair v = scaled_pair<S.type>(h.words[i], first, scale.second);
        if constexpr (S.cast_before_weight)
          v = unpack_pair<S.type>(pack_pair<S.type>(v.low, v.high));
        const FloatPair w = weight.pair(i);
        y.words[i] = pack_pair<S.type>(v.low * (w.low + offset), v.high * (w.high + offset));
      }
    }
  }
  return y;
}

// One element; its address is aligned to the element's size, or less.
template <DType T, int kAlign>
__device__ inline float load_element(const void* base, int64_t offset) {
  float v[1];
  load_vec<T, 1, detail::smaller(kAlign, size_of(T))>(base, offset).unpack(v);
  return v[0];
}
template <DType T, int kAlign>
__device__ inline void store_element(void* base, int64_t offset, float value) {
  Vec<T, 1> v;
  v.pack({value});
  store_vec<T, 1, detail::smaller(kAlign, size_of(T))>(base, offset, v);
}

template <DType T>
__device__ inline void* at_element(const void* base, int64_t offset) {
  return const_cast<char*>(static_cast<const char*>(base)) + offset * size_of(T);
}

/// Column `i` of a thread's own, which start at `first` and come in accesses kThreads apart. One
/// loop over them instead of two nested ones saves a tenth of a kernel's compile time.
template <NormCudaTraits S, int kThreads>
__device__ inline int64_t own_column(int64_t first, uint64_t i) {
  constexpr int N = norm_elements(S);
  return first + static_cast<int64_t>(i / N * (kThreads * N) + i % N);
}

/// Sum of squares of h's columns `first`, first + step, … below `end`, where f32 lost it: reads
/// them again and sums them one by one in f64. Correct, a hundred times slower, and little code.
template <NormCudaTraits S>
__device__ inline double squares_wide(const void* h, int64_t first, int64_t end, int step) {
  double sum = 0;
#pragma unroll 1
  for (int64_t c = first; c < end; c += step) {
    const double v = load_element<S.type, S.align>(h, c);
    sum += v * v;
  }
  return sum;
}
/// The same over all columns [first, end), for every thread that shares them: each warp reads them
/// all. Results may alias h, so the function returns only after all threads have read.
template <NormCudaTraits S, int kThreads>
__device__ inline double squares_wide(const void* h, int64_t first, int64_t end,
                                      const RowSum<kThreads>& threads) {
  constexpr int kLanes = kThreads < kWarp ? 1 : kWarp;
  threads.meet();
  double sum = squares_wide<S>(h, first + threadIdx.x % kLanes, end, kLanes);
  if constexpr (kLanes > 1) sum = warp_sum_in_loop(sum);
  threads.meet();
  return sum;
}

/// The address of a row's h: x, or residual_out once it is written.
template <NormCudaTraits S>
__device__ inline const void* h_of(const NormCudaParams& p, int64_t row) {
  return at_element<S.type>(S.add ? p.residual_out : p.x,
                            row * (S.add ? p.residual_out_stride : p.x_stride));
}

}  // namespace dlblas::norm
