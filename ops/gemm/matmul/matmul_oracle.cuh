// The oracle of matmul as a kernel: matmul_ref.cpp's sums in f64, in the same order of k, so that
// values agree to the bit; any dtype and strides at run time. The host's reference checks it before
// it judges. Tiles are converted to f64 once, in shared memory: an 8192³ product takes a fraction
// of a second. Flow: tune > measure > [judge].  Read next: ops/gemm/matmul/matmul_ref.cpp (why a
// magnitude is so).
#pragma once

#include "device/element_f64.cuh"
#include "ops/gemm/matmul/matmul_oracle_config.hpp"
#include "ops/gemm/matmul/matmul_ref.hpp"

namespace dlblas::gemm {
namespace matmul_oracle {

constexpr int kTile = MatmulOracleParams::kTile;

__device__ inline bool is_subnormal(double v) { return fabs(v) < 0x1p-126; }

struct Sums {
  double even = 0, odd = 0, size = 0, squares = 0, path = 0, lanes = 0, lost = 0;
};

// One step of kTile products. A product of two f32 is exact in f64, so a fused add rounds as often
// as the host's separate one.
__device__ inline void multiply(Sums& sums, const double* a, const double* b, bool subnormals) {
  double even = 0, odd = 0;
  for (int i = 0; i < kTile; ++i) {
    const double product = a[i] * b[i * kTile];
    (i % 2 == 0 ? even : odd) += product;
    sums.size += fabs(product);
    sums.squares += product * product;
    if (!subnormals) continue;
    if (isfinite(product) && (is_subnormal(a[i]) || is_subnormal(b[i * kTile])))
      sums.lost += fabs(product);
  }
  sums.even += even;
  sums.odd += odd;
  const double sum = sums.even + sums.odd;
  sums.path += sum * sum;
  sums.lanes += sums.even * sums.even + sums.odd * sums.odd;
}

__device__ inline SumSizes sizes_of(const Sums& sums, int64_t k) {
  const auto steps = static_cast<double>(std::max<int64_t>(1, (k + kTile - 1) / kTile));
  return {sums.size, sums.squares, sums.path / steps, sums.lanes / steps};
}

}  // namespace matmul_oracle

__global__ void __launch_bounds__(MatmulOracleParams::kTile* MatmulOracleParams::kTile)
    matmul_oracle_rows(const __grid_constant__ MatmulOracleParams p) {
  constexpr int kTile = matmul_oracle::kTile;
  __shared__ double a_tile[kTile][kTile], b_tile[kTile][kTile];
  const int tx = static_cast<int>(threadIdx.x), ty = static_cast<int>(threadIdx.y);
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kTile + tx;
  const int64_t listed = static_cast<int64_t>(blockIdx.y) * kTile + ty;
  const int64_t row = listed < p.num_rows ? p.rows[listed] : 0;
  matmul_oracle::Sums sums;
  for (int64_t k0 = 0; k0 < p.k; k0 += kTile) {
    // Zeros past the ends change no sum.
    const bool has_a = listed < p.num_rows && k0 + tx < p.k, has_b = column < p.n && k0 + ty < p.k;
    const double a =
        has_a ? load_element(p.a, row * p.a_strides[0] + (k0 + tx) * p.a_strides[1]) : 0;
    const double b =
        has_b ? load_element(p.b, (k0 + ty) * p.b_strides[0] + column * p.b_strides[1]) : 0;
    a_tile[ty][tx] = a;
    b_tile[ty][tx] = b;
    const bool tiny = p.loses && ((has_a && matmul_oracle::is_subnormal(a)) ||
                                  (has_b && matmul_oracle::is_subnormal(b)));
    const bool subnormals = __syncthreads_or(tiny) != 0;
    matmul_oracle::multiply(sums, a_tile[ty], &b_tile[0][tx], subnormals);
    __syncthreads();
  }
  if (listed >= p.num_rows || column >= p.n) return;
  const double add = p.bias.data != nullptr ? load_element(p.bias, column * p.bias_stride) : 0;
  const int64_t at = listed * p.n + column;
  const double sum = sums.even + sums.odd;
  p.value[at] = gemm::activate(sum + add, p.activation);
  p.magnitude[at] = gemm::magnitude_of(p.model, matmul_oracle::sizes_of(sums, p.k), sums.lost, sum,
                                       add, p.activation);
}

}  // namespace dlblas::gemm
