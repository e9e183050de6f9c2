// The epilogue of the scaled products on CPUs: scales, bias, one rounding to f32 before the
// store's. In: a row's sums, of any type that f64 holds. Out: a row of the result.
// Compiled once per instruction set.  Read next: cpu/gemm/epilogue.hpp, scaled_simd.hpp.
#pragma once

#include "cpu/gemm/epilogue.hpp"
#include "ops/gemm/scaled/scaled_config.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

using gemm::scaled::kStrip;
using gemm::scaled::ScaledJob;
using gemm::scaled::ScaledMatrix;

DLBLAS_INLINE float scale_at(const ScaledMatrix& s, int64_t row, int64_t col) {
  float v;
  __builtin_memcpy(&v, static_cast<const char*>(s.data) + (row * s.row + col * s.col) * 4, 4);
  return v;
}
DLBLAS_INLINE const uint8_t* code_at(const ScaledMatrix& m, int64_t row, int64_t col) {
  return static_cast<const uint8_t*>(m.data) + row * m.row + col * m.col;
}
DLBLAS_INLINE GemmMatrix gemm_matrix(const ScaledMatrix& m) {
  return {m.data, m.row, m.col, m.type};
}

/// Stores columns [j, j + n) of row i, n at most kStrip. `scales`: the columns' scales; null where
/// the sums are scaled already.
template <typename Sum>
DLBLAS_OUTLINE void finish_row(const ScaledJob& p, int64_t i, int64_t j, int64_t n,
                               const float* scales, const Sum* total) {
  float sums[kStrip + kPackSlack];
  for (int64_t c = n; c < n + kPackSlack; ++c) sums[c] = 0;
  const float scale = scales ? scale_at(p.a_scale, i, 0) : 1.0f;
  for (int64_t c = 0; c < n; ++c) {
    const auto factor = static_cast<double>(scales ? scale * scales[c] : 1.0f);
    sums[c] = static_cast<float>(factor * static_cast<double>(total[c]));
  }
  const GemmMatrix bias = gemm_matrix(p.bias);
  store_values(
      gemm_matrix(p.out), i, j, n, [&](int64_t c, int64_t lanes) __attribute__((always_inline)) {
        const Vec x = load_first<DType::kF32>(sums + c, lanes);
        return p.bias.data ? add(x, load_columns(bias, 0, j + c, lanes)) : x;
      });
}

/// The scales of columns [j, j + n), contiguous in `to`.
DLBLAS_INLINE void load_scales(const ScaledJob& p, int64_t j, int64_t n, float* to) {
  for (int64_t c = 0; c < n; ++c) to[c] = scale_at(p.b_scale, 0, j + c);
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
