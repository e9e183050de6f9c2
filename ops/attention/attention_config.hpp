// What hosts, the instruction-set objects and the CUDA kernels of attention agree on: plain values.
// Read next: attention_simd.hpp, attention_mma.cuh, attention_rows.cuh.
#pragma once

#include "device/types.hpp"

namespace dlblas::attention {

/// What a CPU does with rows of f32.
struct AttentionPasses {
  void (*widen)(DType type, const void* from, int64_t count, float* to);
  void (*narrow)(DType type, const float* from, int64_t count, void* to);
  /// `count` rows of `width`, as columns of `to`, whose rows are a multiple of kCpuLanes apart.
  void (*turn)(const float* from, int64_t from_pitch, int64_t count, int64_t width, float* to,
               int64_t pitch);
  /// c[m, w] = a[m, k]·b[k, w], or added to it; w is a multiple of kCpuLanes.
  void (*multiply)(const float* a, int64_t a_pitch, const float* b, int64_t b_pitch, float* c,
                   int64_t c_pitch, int64_t m, int64_t k, int64_t w, bool add);
  /// Scores of a row become e^(s − most) and are summed: s = s·scale, cap·tanh(s / cap), + bias.
  /// `most` and `sum` go on from what they are; returns what was made before is multiplied with.
  float (*softmax)(float* scores, int64_t count, float scale, float cap, const float* bias,
                   float* most, float* sum);
  void (*scale)(float* row, int64_t count, float factor);
  /// Scores become P = e^(s − lse), s as above, and dp becomes dS = P·(dp − delta)·slope, slope
  /// being that of the cap.
  void (*gradient)(float* scores, float* dp, int64_t count, float scale, float cap,
                   const float* bias, const float* lse, const float* delta);
};
inline constexpr int64_t kCpuLanes = 16;

}  // namespace dlblas::attention

// One entry per instruction set, in objects of their own.
namespace dlblas::baseline {
attention::AttentionPasses attention_passes();
}
namespace dlblas::avx2 {
attention::AttentionPasses attention_passes();
}
namespace dlblas::avx512 {
attention::AttentionPasses attention_passes();
}
