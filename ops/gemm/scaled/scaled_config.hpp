// What the host code and the instruction-set objects of the scaled products share: one call as
// plain values. No inline function may appear here, an instruction-set object would keep its own
// copy of it for everyone. Read next: ops/gemm/scaled/scaled_simd.hpp, scaled_cpu.cpp.
#pragma once

#include <stdint.h>

#include "device/dtype.hpp"

namespace dlblas::gemm::scaled {

/// Terms of K that are added up before a scale multiplies them, and columns of b with one scale, of
/// scales over blocks. The other scales wait until the end, and their sums are kept apart as well.
inline constexpr int64_t kGroup = 128;
/// Columns that a task of the CPU code has at a time.
inline constexpr int64_t kStrip = 128;

/// Strides in elements, of any sign, 0 included.
struct ScaledMatrix {
  void* data;
  int64_t row, col;
  DType type;
};
/// out[m, n] = Σ_g (a_scale[m, g] · b_scale[g, n]) · Σ_{k in g} a[m, k] · b[k, n] + bias[n], of
/// blocks b_scale[g, n / 128]; else there is one group, of all K.
struct ScaledJob {
  ScaledMatrix a, b, a_scale, b_scale, bias, out;  // bias: row unused; data null when absent
  int64_t m, n, k;
  bool blocks;
  const float* values;  // of the 256 codes
};
/// Rows [i0, i1) and columns [j0, j1) of a call, rows a few at a time.
struct ScaledPart {
  int64_t i0, i1, j0, j1;
  int64_t rows;  // at a time
};
/// Bytes of a task's scratch, for `rows` at a time.
constexpr int64_t scaled_scratch_bytes(int64_t rows) {
  return rows * kStrip * 8 + (rows + 3) / 4 * 4 * kGroup * 4 + kStrip * kGroup * 4;
}
using ScaledRun = void (*)(const ScaledJob&, const ScaledPart&, void* scratch);

}  // namespace dlblas::gemm::scaled

namespace dlblas::baseline {
extern const gemm::scaled::ScaledRun kScaledRun;
}
namespace dlblas::avx2 {
extern const gemm::scaled::ScaledRun kScaledRun;
}
namespace dlblas::avx512 {
extern const gemm::scaled::ScaledRun kScaledRun;
}
