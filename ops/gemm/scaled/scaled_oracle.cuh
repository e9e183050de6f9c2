// The oracle of the scaled products as a kernel: the text of scaled_ref.hpp, a thread per element;
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
  // The threads of a block load tiles together, so those past the ends compute an element, too.
  const auto terms = [&](ScaledWalk& walk, int64_t begin, int64_t end) {
    for (int64_t k0 = begin; k0 < end; k0 += kTile) {
      // Zeros past the ends change no sum.
      const bool has_a = listed < p.num_rows && k0 + tx < end,
                 has_b = column < p.n && k0 + ty < end;
      a_tile[ty][tx] =
          has_a ? load_element(p.a, row * p.a_strides[0] + (k0 + tx) * p.a_strides[1]) : 0;
      b_tile[ty][tx] =
          has_b ? load_element(p.b, (k0 + ty) * p.b_strides[0] + column * p.b_strides[1]) : 0;
      __syncthreads();
      for (int i = 0; i < kTile; ++i) walk.add(a_tile[ty][i] * b_tile[i][tx]);
      __syncthreads();
    }
  };
  const auto factor = [&](int64_t group) -> double {
    if (!there) return 0;
    const int64_t block = p.rule.blocks ? column / kOracleGroup : column;
    return scaled_factor(
        load_element(p.a_scale, row * p.a_scale_strides[0] + group * p.a_scale_strides[1]),
        load_element(p.b_scale, group * p.b_scale_strides[0] + block * p.b_scale_strides[1]));
  };
  const double bias =
      there && p.bias.data != nullptr ? load_element(p.bias, column * p.bias_stride) : 0;
  const OracleValue of = scaled_element(p.rule, terms, factor, bias);
  if (!there) return;
  p.value[listed * p.n + column] = of.value;
  p.magnitude[listed * p.n + column] = of.magnitude;
}

}  // namespace dlblas::gemm::scaled
