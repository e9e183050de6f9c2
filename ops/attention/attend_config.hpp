// Interface of hosts and the instruction-set objects of attention over rows of keys: plain values.
// Read next: ops/attention/cpu/attend_simd.hpp (the passes), attend_cpu.hpp (calls them).
#pragma once

#include <stdint.h>

#include "device/dtype.hpp"

namespace dlblas::attention {

/// Rows of keys or values: one pointer per row, whose elements are contiguous.
struct AttendRows {
  const void* const* rows;
  int64_t count, width;
  DType type;  // f32, f16 or bf16
};

/// CPU passes over blocks of keys. Rows of f32 are contiguous and need no alignment.
struct AttendPasses {
  void (*widen)(DType type, const void* from, int64_t count, float* to);
  void (*narrow)(DType type, const float* from, int64_t count, void* to);
  /// scores[m·ld + j] = q[m·width …]·k_j
  void (*scores)(const AttendRows& keys, const float* q, int64_t queries, float* scores,
                 int64_t ld);
  /// scores = e^(factor·score − most), capped first unless cap is 0. `most` and `sum` cover the
  /// keys before this block, and on return these too; returns the factor that rescales earlier
  /// sums.
  float (*powers)(float* scores, int64_t count, float factor, float cap, float* most, float* sum);
  /// o[m·width …] = o·scale[m] + Σ_j p[m·ld + j]·v_j
  void (*mix)(const AttendRows& values, const float* p, int64_t ld, const float* scale,
              int64_t queries, float* o);
};

}  // namespace dlblas::attention

// One entry per instruction set, each in its own object file.
namespace dlblas::baseline {
attention::AttendPasses attend_passes();
}
namespace dlblas::avx2 {
attention::AttendPasses attend_passes();
}
namespace dlblas::avx512 {
attention::AttendPasses attend_passes();
}
