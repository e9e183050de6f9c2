// What the host code and the instruction-set objects of the scaled products share: one call as
// plain values. No inline functions here: the linker could keep an instruction-set object's copy
// for everyone. Read next: ops/gemm/scaled/scaled_simd.hpp, scaled_cpu.cpp.
#pragma once

#include <stdint.h>

#include "device/dtype.hpp"

namespace dlblas::gemm::scaled {

/// With block scales: terms of K summed before a scale multiplies them, and columns of b per scale.
/// Channel scales are applied at the end, but their sums are taken in the same groups.
inline constexpr int64_t kGroup = 128;
/// Columns that a task of the CPU code computes at a time.
inline constexpr int64_t kStrip = 128;

/// Strides in elements, of any sign, 0 included.
struct ScaledMatrix {
  void* data;
  int64_t row, col;
  DType type;
};
/// out[m, n] = Σ_g (a_scale[m, g] · b_scale[g, n]) · Σ_{k in g} a[m, k] · b[k, n] + bias[n]. With
/// `blocks`, b_scale[g, n / 128]; otherwise all of K is one group.
struct ScaledJob {
  ScaledMatrix a, b, a_scale, b_scale, bias, out;  // bias: row unused; data null when absent
  int64_t m, n, k;
  bool blocks;
  const float* values;  // of the 256 codes
};
/// Rows [i0, i1) and columns [j0, j1) of a call, a few rows at a time.
struct ScaledPart {
  int64_t i0, i1, j0, j1;
  int64_t rows;  // at a time
};
/// Bytes of a task's scratch memory, for `rows` rows at a time.
constexpr int64_t scaled_scratch_bytes(int64_t rows) {
  return rows * kStrip * 8 + (rows + 15) / 16 * 16 * kGroup * 4 + kStrip * kGroup * 4;
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
