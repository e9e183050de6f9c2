// The oracle of the scaled products as a kernel: scaled_ref.cpp's sums in f64, in the same order,
// any strides at run time. Flow: tune > measure > [judge].  Read next: scaled_ref.hpp.
#pragma once

#include "device/element_f64.cuh"
#include "ops/gemm/scaled/scaled_oracle.hpp"
#include "ops/gemm/scaled/scaled_ref.hpp"

namespace dlblas::gemm::scaled {

__global__ void __launch_bounds__(ScaledOracleParams::kTile* ScaledOracleParams::kTile)
    scaled_oracle_rows(const __grid_constant__ ScaledOracleParams p) {
  constexpr int kTile = ScaledOracleParams::kTile;
  __shared__ double a_tile[kTile][kTile], b_tile[kTile][kTile];
  const int tx = static_cast<int>(threadIdx.x), ty = static_cast<int>(threadIdx.y);
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kTile + tx;
  const int64_t listed = static_cast<int64_t>(blockIdx.y) * kTile + ty;
  const bool there = listed < p.num_rows && column < p.n;
  const int64_t row = listed < p.num_rows ? p.rows[listed] : 0;
  const auto factor = [&](int64_t group) -> double {
    if (!there) return 0;
    const int64_t block = p.blocks ? column / kOracleGroup : column;
    const auto s = static_cast<float>(
        load_element(p.a_scale, row * p.a_scale_strides[0] + group * p.a_scale_strides[1]));
    const auto t = static_cast<float>(
        load_element(p.b_scale, group * p.b_scale_strides[0] + block * p.b_scale_strides[1]));
    return static_cast<double>(s * t);
  };
  ScaledWalk walk(p.a.dtype == DType::kI8);
  for (int64_t k0 = 0; k0 < p.k; k0 += kTile) {
    // Zeros past the ends change no sum.
    const bool has_a = listed < p.num_rows && k0 + tx < p.k, has_b = column < p.n && k0 + ty < p.k;
    a_tile[ty][tx] =
        has_a ? load_element(p.a, row * p.a_strides[0] + (k0 + tx) * p.a_strides[1]) : 0;
    b_tile[ty][tx] =
        has_b ? load_element(p.b, (k0 + ty) * p.b_strides[0] + column * p.b_strides[1]) : 0;
    __syncthreads();
    for (int i = 0; i < kTile; ++i) walk.add(a_tile[ty][i] * b_tile[i][tx]);
    __syncthreads();
    const int64_t after = k0 + kTile;
    if (after % kOracleGroup == 0 || after >= p.k)
      walk.end_group(p.blocks ? factor(k0 / kOracleGroup) : 1);
  }
  if (!there) return;
  const double whole = p.blocks ? 1 : factor(0);
  const double bias = p.bias.data != nullptr ? load_element(p.bias, column * p.bias_stride) : 0;
  const int64_t at = listed * p.n + column;
  p.value[at] = scaled_value(walk, whole, bias);
  p.magnitude[at] = scaled_magnitude(walk, whole, bias);
}

}  // namespace dlblas::gemm::scaled
