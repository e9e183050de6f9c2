// What the host code and the GPU kernels of the scaled products share: traits (of the Problem),
// configurations (searched), parameters (of one call). In: nothing but plain values; read by the
// host compiler and by NVRTC. Read next: scaled_mma.cuh, scaled_wgmma.cuh.
#pragma once

#include "device/types.hpp"

namespace dlblas::gemm::scaled {

/// Terms of K summed before a scale multiplies them, or before an f32 sum is added to its total;
/// with block scales, also columns of b per scale.
inline constexpr int kScaleGroup = 128;

/// What the Problem fixes.
struct ScaledTraits {
  DType type;               // of a and b
  bool a_along, b_along;    // contiguous along K; else neighbours along M or N are read together
  bool a_vector, b_vector;  // rows along K begin at multiples of 16 bytes
  bool blocks;              // scales of 1×128 and 128×128; else of rows and columns
  bool integers;            // i8 whose sums i32 holds
  DType out;
  bool out_pairs;  // two neighbours of a row are one store
  DType bias;      // kAbsent: none
  bool aligned;    // every element is aligned to its size
};

/// A block computes block_m × 128 elements of the result, 128 of K at a time in two halves.
struct ScaledMmaConfig {
  int32_t block_m;

  static constexpr int kThreads = 256, kColumns = 128, kDepth = 64;
  constexpr int warps_m() const { return block_m <= 16 ? 1 : 2; }
  constexpr int warps_n() const { return kThreads / 32 / warps_m(); }
  constexpr int warp_m() const { return block_m / warps_m(); }
  constexpr int warp_n() const { return kColumns / warps_n(); }
  constexpr int buffer_bytes() const { return (block_m + kColumns) * kDepth * 2; }
  constexpr int shared_bytes() const { return 2 * buffer_bytes(); }
};

/// What the Problem fixes of the WGMMA form's epilogue.
struct ScaledProgramTraits {
  DType out, bias;             // bias kAbsent: none
  bool blocks;                 // scales are the main loop's
  bool each_row, each_column;  // has a scale of its own; else one is for all
};

/// One call. Strides in elements; a single scale for all has strides of 0.
struct ScaledParams {
  const void *a, *b;
  int64_t a_row, a_col, b_row, b_col;
  const void *a_scale, *b_scale, *bias;
  int64_t a_scale_row, a_scale_group, b_scale_group, b_scale_col, bias_col;
  void* out;
  int64_t out_row, out_col;
  int64_t m, n, k;
};

/// A copy into rows contiguous along K; pitch is a multiple of 16.
struct ScaledPlainParams {
  static constexpr int kTile = 64, kThreads = 256;
  const uint8_t* from;
  int64_t row, col, rows, k;
  uint8_t* to;
  int64_t pitch;
};

/// Scales of blocks as cuBLASLt reads them: to[o, i] = from[o, i] for i < inner, then zeros up to
/// the pitch.
struct ScaledArrangeParams {
  static constexpr int kTile = 32, kThreads = 256;
  struct Matrix {
    const float* from;
    int64_t along, across;  // strides of i and of o
    int64_t inner, outer;
    float* to;
    int64_t pitch;
  };
  Matrix a, b;
  uint32_t tiles_a;  // the first blocks take those of a
};

}  // namespace dlblas::gemm::scaled
