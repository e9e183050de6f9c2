// The product of one to four rows that are normalised on the way: out = epilogue(r[m] · Σ_k x[m, k]
// · gain[k] · b[k, n]), r = 1/√(mean_K(x²) + eps). Each group of warps reads all of K, so it has
// the rows' squares as well; a block does not wait for any other. In: as gemv_mainloop.cuh; a
// contiguous gain of 16 or 32 bits. Out: the epilogue's. Numerics: all in f32, x̂ is never rounded.
// Where f32 does not hold a mean square, or a scaled sum is not finite, a block computes again,
// with squares in f64 and rows normalised first. Read next: gemv_mainloop.cuh,
// ops/mlp/norm_fused.cpp.
#pragma once

#include "device/gemm/gemv_mainloop.cuh"
#include "device/scale.cuh"

namespace dlblas {

template <typename Epilogue>
struct GemvNormParams {
  GemmParams<Epilogue> product;
  const void* gain;
  double eps64, inverse_k64;
  float eps, inverse_k;
};

/// Rows times the gain; adds up their squares.
template <GemmTraits S, DType kGain>
struct GemvSquaredRows {
  const GemmCall& p;
  const void* gain;
  float (&squares)[S.rows][2];

  __device__ __forceinline__ void load(float (&x)[S.rows][8], int64_t at, bool inside) const {
    GemvRows<S>{p}.load(x, at, inside);
    float g[8];
    (inside ? load_vec<kGain, 8>(gain, at) : Vec<kGain, 8>::zero()).unpack(g);
#pragma unroll
    for (int m = 0; m < S.rows; ++m) {
      float part[2] = {};
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        part[i % 2] = fmaf(x[m][i], x[m][i], part[i % 2]);
        x[m][i] *= g[i];
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) squares[m][i] += part[i];
    }
  }
};
/// The factor of row m, from squares in f64; every thread of the block calls it.
template <GemmTraits S>
__device__ inline RowScale<S.type> wide_scale(const GemmCall& p, int m, double inverse_k,
                                              double eps) {
  double sum = 0;
#pragma unroll 1
  for (int64_t k = threadIdx.x % 32; m < p.m && k < p.k; k += 32) {
    const double v = load_vec<S.type, 1, 2>(p.a, m * p.a_row + k).pair(0).low;
    sum += v * v;
  }
  const double mean = warp_sum_in_loop(sum) * inverse_k + eps;
  const bool outside = mean < 0x1p-100 || mean > 0x1p126;  // false for NaN
  return outside ? RowScale<S.type>::wide_root(mean)
                 : RowScale<S.type>::root(static_cast<float>(mean));
}

template <GemmTraits S, GemvConfig C, typename Epilogue>
__global__ void __launch_bounds__(C.threads())
    gemm_gemv_normed(const __grid_constant__ GemvNormParams<Epilogue> params) {
  constexpr int kParts = Epilogue::kParts;
  constexpr DType kGain = Epilogue::kGain;
  constexpr float kLeast = 0x1p-48f, kMost = 0x1p48f, kLargest = 0x1.fffffep127f;
  static_assert(valid(C) && C.columns % kParts == 0 && S.b_by_depth);
  const GemmParams<Epilogue>& p = params.product;
  __shared__ float shared[C.warps][C.columns + 1][S.rows];
  wait_for_dependencies();
  launch_dependents();
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t first = int64_t{blockIdx.x} * C.block_columns(),
                all = product_columns<kParts>(p.gemm);
  const void* columns[C.columns];
  const int64_t n0 = first + warp / C.split * C.columns;
  gemv_columns<C, kParts>(columns, p.gemm, n0, all);
  constexpr int kEach = C.columns * S.rows / kParts;  // results of a warp
  const auto publish = [&](const GemvTotals<S, C>& totals) {
#pragma unroll
    for (int c = 0; c < C.columns; ++c)
#pragma unroll
      for (int m = 0; m < S.rows; ++m) {
        const float sum = warp_sum(totals[c][m]);
        if (lane == 0) shared[warp][c][m] = sum;
      }
  };
  /// A value of a group: its warps' parts in order.
  const auto total_of = [&](int group, int c, int m) {
    float total = shared[group * C.split][c][m];
#pragma unroll
    for (int s = 1; s < C.split; ++s) total += shared[group * C.split + s][c][m];
    return total;
  };
  /// Each result of the block that exists.
  const auto each_result = [&](const auto& f) {
    for (int e = static_cast<int>(threadIdx.x); e < C.warps / C.split * kEach; e += C.threads()) {
      const int group = e / kEach, c = e % kEach / S.rows * kParts, m = e % S.rows;
      const int64_t n = first + group * C.columns + c;
      if (m >= p.gemm.m || n >= all) continue;
      float total[kParts];
#pragma unroll
      for (int part = 0; part < kParts; ++part) total[part] = total_of(group, c + part, m);
      f(group, m, n, total);
    }
  };
  const auto factor_of = [&](int group, int m) {
    const float mean = fmaf(total_of(group, C.columns, m), params.inverse_k, params.eps);
    return mean >= kLeast && mean <= kMost ? reciprocal_root(mean) : float_from_bits(0x7fc00000u);
  };
  {
    GemvTotals<S, C> totals = {};
    float squares[S.rows][2] = {};
    const GemvSquaredRows<S, kGain> rows{p.gemm, params.gain, squares};
    gemv_walk<S, C>(totals, p.gemm, rows, columns, warp, lane);
    publish(totals);
#pragma unroll
    for (int m = 0; m < S.rows; ++m) {
      const float sum = warp_sum(squares[m][0] + squares[m][1]);
      if (lane == 0) shared[warp][C.columns][m] = sum;
    }
  }
  __syncthreads();
  bool finite = true;
  each_result([&](int group, int m, int64_t, const float(&total)[kParts]) {
    const float factor = factor_of(group, m);
#pragma unroll
    for (int part = 0; part < kParts; ++part)
      finite = finite && fabsf(total[part] * factor) <= kLargest;
  });
  const bool scaled = __syncthreads_and(finite) != 0;
  if (!scaled) {  // slow and in few registers, which are those of all launches
#pragma unroll 1
    for (int m = 0; m < S.rows; ++m) {
      const RowScale<S.type> scale = wide_scale<S>(p.gemm, m, params.inverse_k64, params.eps64);
      const float before = S.type == DType::kF16 ? 1 : scale.first;
#pragma unroll 1
      for (int c = 0; c < C.columns; ++c) {
        const int64_t n = (n0 + c < all ? n0 + c : all - kParts + c % kParts) / kParts;
        const void* const column = p.gemm.b[c % kParts];
        float sum = 0;
#pragma unroll 1
        for (int64_t k = warp % C.split * 32 + lane; m < p.gemm.m && k < p.gemm.k;
             k += C.split * 32) {
          const float x = load_vec<S.type, 1, 2>(p.gemm.a, m * p.gemm.a_row + k).pair(0).low;
          const float gain = load_vec<kGain, 1, size_of(kGain)>(params.gain, k).pair(0).low;
          const float b = load_vec<S.type, 1, 2>(column, n * p.gemm.b_col + k).pair(0).low;
          sum = fmaf(x * before * scale.second * gain, b, sum);
        }
        sum = warp_sum(sum);
        if (lane == 0) shared[warp][c][m] = sum;
      }
    }
    __syncthreads();
  }
  each_result([&](int group, int m, int64_t n, float(&total)[kParts]) {
    const float factor = scaled ? factor_of(group, m) : 1;
#pragma unroll
    for (int part = 0; part < kParts; ++part) total[part] *= factor;
    finish_columns<Epilogue, kParts>(p, m, n, total);
  });
}

}  // namespace dlblas
