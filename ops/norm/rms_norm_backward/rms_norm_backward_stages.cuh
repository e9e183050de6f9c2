// The stages of the gradient kernels, on one access of N elements: the two sums behind r and s, dx,
// and the row's terms of dweight. And the kernel that runs last: dweight from partial sums.
// Numerics: f32, or f64 where a row's sums leave f32's range; one rounding, at the store. No
// atomics: the order of additions depends on sizes and configuration. Flow: call > validate >
// select > compile > [launch]. Read next:
// ops/norm/rms_norm_backward/rms_norm_backward_registers.cuh.
#pragma once

#include "device/pdl.cuh"
#include "ops/norm/cuda/norm_stages.cuh"
#include "ops/norm/rms_norm_backward/rms_norm_backward_cuda_config.hpp"

namespace dlblas::norm {

/// g = dy · (weight + weight_offset).
template <NormCudaTraits S>
__device__ inline void scaled_gradient(float (&g)[norm_elements(S)], const NormVec<S>& dy,
                                       const NormWeightVec<S>& weight, float offset) {
  float w[norm_elements(S)];
  dy.unpack(g);
  weight.unpack(w);
#pragma unroll
  for (int i = 0; i < norm_elements(S); ++i) g[i] *= w[i] + offset;
}

/// A thread's sums of x² and of g·x, each in two chains.
struct GradientSums {
  SumPair chains[2] = {SumPair(0), SumPair(0)};

  template <NormCudaTraits S>
  __device__ void take(const NormVec<S>& x, const NormVec<S>& dy, const NormWeightVec<S>& weight,
                       float offset) {
    float v[norm_elements(S)], g[norm_elements(S)];
    x.unpack(v);
    scaled_gradient<S>(g, dy, weight, offset);
#pragma unroll
    for (int i = 0; i < norm_elements(S); ++i) {
      chains[i % 2].first = fmaf(v[i], v[i], chains[i % 2].first);
      chains[i % 2].second = fmaf(g[i], v[i], chains[i % 2].second);
    }
  }
  __device__ SumPair sum() const {
    SumPair sum = chains[0];
    return sum += chains[1];
  }
};

/// The same in f64, where no product is lost.
struct WideGradientSums {
  double squares = 0, products = 0;

  /// A thread's columns of a row in [first, end), read from memory one by one, which costs the
  /// usual path almost no registers.
  template <NormCudaTraits S, int kThreads>
  __device__ void take(const BackwardCudaParams& p, int64_t row, int64_t first, int64_t end) {
#pragma unroll 1
    for (uint64_t i = 0;; ++i) {
      const int64_t c = own_column<S, kThreads>(first, i);
      if (c >= end) break;
      const double x = load_element<S.type, S.align>(p.x, row * p.x_stride + c);
      const double dy = load_element<S.type, S.align>(p.dy, row * p.dy_stride + c);
      double weight = 0;
      if constexpr (S.weight_align > 0)
        weight = load_element<S.weight, S.weight_align>(p.weight, c);
      squares += x * x;
      products += dy * (weight + p.weight_offset) * x;
    }
  }
  /// Reduces both sums over the row's threads, one after the other, in code that is compiled once.
  template <int kThreads>
  __device__ void add_up(RowSum<kThreads>& threads) {
#pragma unroll 1
    for (int i = 0; i < 2; ++i) {
      const double sum = threads.sum(squares);
      squares = products;
      products = sum;
    }
  }
};

/// True if the f32 sums of a row lost what r and s need. False if x has a NaN: then all is NaN.
__device__ inline bool leaves_f32(SumPair sums, const BackwardCudaParams& p) {
  const float mean = fmaf(sums.first, p.inverse_width_f32, p.eps_f32);
  return sums.first > 0x1p126f || mean < 0x1p-100f || mean > 0x1p126f ||
         (sums.first == sums.first && !(fabsf(sums.second) <= 0x1p126f)) ||
         // Products below 2^-126 lost bits; r above 1 makes that visible. If dy is 0 there are
         // none.
         (mean < 1 && sums.second != 0 && fabsf(sums.second) * p.inverse_width_f32 < 0x1p-100f);
}

__device__ inline BackwardScale backward_scale(SumPair sums, const BackwardCudaParams& p) {
  const float r = reciprocal_root(fmaf(sums.first, p.inverse_width_f32, p.eps_f32));
  return {r, 1.0f, sums.second * p.inverse_width_f32 * r};
}
/// r = first · second, and s.
__device__ inline BackwardScale scale_by(const WideGradientSums& sums, const BackwardCudaParams& p,
                                         float first, float second) {
  return {first, second, static_cast<float>(sums.products * p.inverse_width * first * second)};
}
/// For any row: if the mean leaves f32's range, powers of 2 bring it back. Above 2^220 only eps can
/// be that large, and below 2^-330 all of x is 0: what f32 cannot hold is then 0, or infinite, in
/// dx.
__device__ inline BackwardScale backward_scale(const WideGradientSums& sums,
                                               const BackwardCudaParams& p) {
  const double mean = fma(sums.squares, p.inverse_width, p.eps);
  const auto root = [mean](double scale) {
    return reciprocal_root(static_cast<float>(mean * scale));
  };
  if (mean > 0x1p300) return scale_by(sums, p, root(0x1p-420) * 0x1p-84f, 0x1p-126f);
  if (mean > 0 && mean < 0x1p-330)
    return scale_by(sums, p, fminf(root(0x1p450) * 0x1p98f, 0x1p127f), 0x1p127f);
  // The exact factor comes first: small elements leave the denormal range before they are rounded.
  if (mean < 0x1p-100) return scale_by(sums, p, 0x1p50f, root(0x1p220) * 0x1p60f);
  const float second = mean > 0x1p220 ? 0x1p-100f : mean > 0x1p120 ? 0x1p-66f : 1.0f;
  return scale_by(sums, p, root(static_cast<double>(second) * second), second);
}

/// Returns dx of one access, and adds its terms of dweight to `sums`.
template <NormCudaTraits S>
__device__ inline NormVec<S> write_gradient(const NormVec<S>& x, const NormVec<S>& dy,
                                            const NormWeightVec<S>& weight,
                                            const NormVec<S>& dresidual, const BackwardScale& scale,
                                            float offset, float (&sums)[norm_elements(S)]) {
  constexpr int N = norm_elements(S);
  float n[N], d[N], g[N], out[N];
  x.unpack(n);
  dy.unpack(d);
  scaled_gradient<S>(g, dy, weight, offset);
  if constexpr (S.add) dresidual.unpack(out);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    n[i] = n[i] * scale.first * scale.second;
    const float t = fmaf(-n[i], scale.s, g[i]) * scale.first;
    out[i] = S.add ? fmaf(t, scale.second, out[i]) : t * scale.second;
  }
  if constexpr (S.cast_before_weight) {
    NormVec<S> rounded;
    rounded.pack(n);
    rounded.unpack(n);
  }
#pragma unroll
  for (int i = 0; i < N; ++i) sums[i] = fmaf(d[i], n[i], sums[i]);
  NormVec<S> dx;
  dx.pack(out);
  return dx;
}

/// Stores one thread's N columns at partials[group, column …]. If N is above 1, it divides the
/// width.
template <int N>
__device__ inline void store_partial(const BackwardCudaParams& p, int64_t group, int64_t column,
                                     const float (&sums)[N]) {
  Vec<DType::kF32, N> v;
  v.pack(sums);
  store_vec(p.partials, group * p.width + column, v);
}

/// dweight from [groups, width] partial sums, in f64, in a fixed order. One block takes
/// kFoldColumns columns.
template <DType kWeight, int kAlign>
__global__ void __launch_bounds__(kFoldColumns* kFoldParts)
    norm_backward_fold(const __grid_constant__ BackwardFoldParams p) {
  static_assert(kFoldParts == kWarp && kFoldColumns == kWarp);
  __shared__ double sums[kFoldParts][kFoldColumns + 1];
  const int column_here = threadIdx.x % kFoldColumns, part = threadIdx.x / kFoldColumns;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kFoldColumns + column_here;
  wait_for_dependencies();
  double sum = 0;
  if (column < p.width)
#pragma unroll 4
    for (int64_t group = part; group < p.groups; group += kFoldParts)
      sum += p.partials[group * p.width + column];
  sums[part][column_here] = sum;
  __syncthreads();
  // Transposed, so that a warp has the parts of one column.
  const double mine = sums[threadIdx.x % kFoldParts][threadIdx.x / kFoldParts];
  const double total = warp_sum(mine);
  const int64_t out = static_cast<int64_t>(blockIdx.x) * kFoldColumns + threadIdx.x / kFoldParts;
  if (threadIdx.x % kFoldParts != 0 || out >= p.width) return;
  Vec<kWeight, 1> v;
  v.words[0] = pack_one<kWeight>(static_cast<float>(total));
  store_vec<kWeight, 1, kAlign>(p.dweight, out * p.dweight_stride, v);
}

}  // namespace dlblas::norm
