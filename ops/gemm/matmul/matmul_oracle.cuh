// The oracle of matmul as a kernel: the text of matmul_ref.hpp, a thread per element; any dtype and
// strides at run time. A product of two f32 is exact in f64, so a fused add rounds as often as the
// host's separate one, and sums agree to the bit. Tiles are converted to f64 once, in shared
// memory: an 8192³ product takes a fraction of a second. Flow: tune > measure > [judge].  Read
// next: ops/gemm/matmul/matmul_ref.hpp.
#pragma once

#include "device/element_f64.cuh"
#include "ops/gemm/matmul/matmul_oracle_config.hpp"
#include "ops/gemm/matmul/matmul_ref.hpp"

namespace dlblas::gemm {

__global__ void __launch_bounds__(MatmulOracleParams::kTile* MatmulOracleParams::kTile)
    matmul_oracle_rows(const __grid_constant__ MatmulOracleParams p) {
  constexpr int kTile = MatmulOracleParams::kTile;
  __shared__ double a_tile[kTile][kTile], b_tile[kTile][kTile];
  const int tx = static_cast<int>(threadIdx.x), ty = static_cast<int>(threadIdx.y);
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kTile + tx;
  const int64_t listed = static_cast<int64_t>(blockIdx.y) * kTile + ty;
  const int64_t row = listed < p.num_rows ? p.rows[listed] : 0;
  ProductSums<OneColumn, 1> sums;
  double lost = 0;
  for (int64_t k0 = 0; k0 < p.k; k0 += kTile) {
    // Zeros past the ends change no sum.
    const bool has_a = listed < p.num_rows && k0 + tx < p.k, has_b = column < p.n && k0 + ty < p.k;
    const double a =
        has_a ? load_element(p.a, row * p.a_strides[0] + (k0 + tx) * p.a_strides[1]) : 0;
    const double b =
        has_b ? load_element(p.b, (k0 + ty) * p.b_strides[0] + column * p.b_strides[1]) : 0;
    a_tile[ty][tx] = a;
    b_tile[ty][tx] = b;
    const bool tiny = p.rule.loses && ((has_a && is_subnormal(a)) || (has_b && is_subnormal(b)));
    const bool subnormals = __syncthreads_or(tiny) != 0;
    sums.add(kTile, [&](int i, int) {
      const double x = a_tile[ty][i], y = b_tile[i][tx];
      if (subnormals) lost += lost_of(x, y);
      return x * y;
    });
    __syncthreads();
  }
  if (listed >= p.num_rows || column >= p.n) return;
  const double add = p.bias.data != nullptr ? load_element(p.bias, column * p.bias_stride) : 0;
  const OracleValue of = matmul_element(p.rule, sums.column(0), lost, add);
  p.value[listed * p.n + column] = of.value;
  p.magnitude[listed * p.n + column] = of.magnitude;
}

}  // namespace dlblas::gemm
