// Shared by the CPU kernels of rms_norm_backward: traits, the searched configuration, one row's
// arguments. PODs and enums only, since the instruction-set objects include this file and must
// define no shared function. A row takes two passes: `sum` computes its two sums, the host turns
// them into r and s, and `write` computes dx and adds the row to a partial dweight. Flow: call >
// validate > select > compile > [launch]. Read next:
// ops/norm/rms_norm_backward/rms_norm_backward_cpu.cpp, rms_norm_backward_simd.hpp.
#pragma once

#include <stdint.h>

#include "device/dtype.hpp"

namespace dlblas::norm {

/// Terms of a row's sums are added in f32 over at most this many elements, then in f64: the error
/// does not grow with the width, and the order depends only on the width and the configuration.
inline constexpr int64_t kBackwardBlock = 4096;

struct RmsNormBackwardTraits {
  DType element;            // of dy, x, dresidual and dx
  DType weight;             // element, or f32
  bool add;                 // dresidual is given
  bool cast_before_weight;  // x·r is rounded to `element` before it meets dy in dweight
};

/// The searched knobs; the table is in rms_norm_backward_cpu.cpp.
struct RmsNormBackwardConfig {
  int32_t unroll = 2;     // pairs of vectors in flight: accumulators of each sum
  int32_t task_kib = 64;  // bytes of dy and x per task: below, threads cost more than they bring
};

/// One row. Elements are contiguous; pointers may be unaligned.
struct BackwardRow {
  int64_t width;
  const void* dy;
  const void* x;
  const void* weight;
  const void* dresidual;  // with `add`
  void* dx;
  float* dweight;  // the partial sum, in the order of the lanes: see BackwardPasses::place
  float weight_offset;
};

struct BackwardSums {
  double squares;   // of x
  double products;  // of g and x
};

inline constexpr int kMaxPair = 32;

struct BackwardPasses {
  BackwardSums (*sum)(const BackwardRow& row);
  void (*write)(const BackwardRow& row, float r, float s);
  /// The sum of the row's element i is at place[i % pair] of its pair; past the last whole pair, at
  /// i.
  int32_t pair;
  unsigned char place[kMaxPair];
};

}  // namespace dlblas::norm

// One entry per instruction set, each in its own object: rms_norm_backward_<isa>.cpp.
namespace dlblas::baseline {
norm::BackwardPasses backward_passes(const norm::RmsNormBackwardTraits& traits,
                                     const norm::RmsNormBackwardConfig& config);
}
namespace dlblas::avx2 {
norm::BackwardPasses backward_passes(const norm::RmsNormBackwardTraits& traits,
                                     const norm::RmsNormBackwardConfig& config);
}
namespace dlblas::avx512 {
norm::BackwardPasses backward_passes(const norm::RmsNormBackwardTraits& traits,
                                     const norm::RmsNormBackwardConfig& config);
}
