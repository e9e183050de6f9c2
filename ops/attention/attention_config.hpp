// Interface of hosts, the instruction-set objects and the CUDA kernels of attention: plain values.
// Read next: attention_simd.hpp, attention_mma.cuh, attention_rows.cuh.
#pragma once

#include "device/types.hpp"

namespace dlblas::attention {

/// CPU passes over rows of f32.
struct AttentionPasses {
  void (*widen)(DType type, const void* from, int64_t count, float* to);
  void (*narrow)(DType type, const float* from, int64_t count, void* to);
  /// Transposes `count` rows of `width` into `to`, whose pitch is a multiple of kCpuLanes.
  void (*turn)(const float* from, int64_t from_pitch, int64_t count, int64_t width, float* to,
               int64_t pitch);
  /// c[m, w] = a[m, k]·b[k, w], or c += that; w is a multiple of kCpuLanes.
  void (*multiply)(const float* a, int64_t a_pitch, const float* b, int64_t b_pitch, float* c,
                   int64_t c_pitch, int64_t m, int64_t k, int64_t w, bool add);
  /// Turns a row's scores into e^(s − most) and sums them: s = s·scale, cap·tanh(s / cap), + bias.
  /// Updates `most` and `sum`; returns the factor that rescales earlier results.
  float (*softmax)(float* scores, int64_t count, float scale, float cap, const float* bias,
                   float* most, float* sum);
  void (*scale)(float* row, int64_t count, float factor);
  /// Turns scores into P = e^(s − lse), s as above, and dp into dS = P·(dp − delta)·slope, where
  /// slope is the derivative of the cap.
  void (*gradient)(float* scores, float* dp, int64_t count, float scale, float cap,
                   const float* bias, const float* lse, const float* delta);
};
inline constexpr int64_t kCpuLanes = 16;

}  // namespace dlblas::attention

// One entry per instruction set, each in its own object file.
namespace dlblas::baseline {
attention::AttentionPasses attention_passes();
}
namespace dlblas::avx2 {
attention::AttentionPasses attention_passes();
}
namespace dlblas::avx512 {
attention::AttentionPasses attention_passes();
}
