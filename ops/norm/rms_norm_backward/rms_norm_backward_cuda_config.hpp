// Shared by the host and the CUDA kernels of rms_norm_backward: configurations and parameters.
// Traits are NormCudaTraits; `add` means that dresidual is given. Compiled by g++, clang and NVRTC
// alike. Flow: call > validate > select > [compile] > [launch]. Read next:
// ops/norm/rms_norm_backward/rms_norm_backward_cuda.cpp (host),
// ops/norm/rms_norm_backward/rms_norm_backward_registers.cuh (device).
#pragma once

#include "device/view.hpp"
#include "ops/norm/cuda/norm_cuda_config.hpp"

namespace dlblas::norm {

/// cuda_registers: a row of x and of dy, and its share of dweight, are held in registers.
struct BackwardRegistersConfig {
  int32_t threads = 256;  // of one row
  int32_t vectors = 2;    // accesses of one thread
  int32_t rows = 2;       // rows of one block, each with a barrier of its own
  int32_t blocks = 1;     // of a multiprocessor
  bool prefetch = true;   // the next row is asked for before this one's sums are waited for
};

/// cuda_columns: sums by rows, then dx and dweight by columns, which reads everything again.
struct BackwardColumnsConfig {
  int32_t threads = 256;  // of one row, in both kernels
};
/// Threads per block in cuda_columns: as many rows of `threads` as fit.
inline constexpr int kBackwardColumnsBlock = 256;

/// One call. Strides are in elements, between rows.
struct BackwardCudaParams {
  const void* dy;
  const void* x;
  const void* weight;
  const void* dresidual;  // with `add`
  void* dx;
  float* partials;  // [groups of rows, width]
  int64_t dy_stride, x_stride, dresidual_stride, dx_stride;
  int64_t rows, width;
  double eps, inverse_width;
  float eps_f32, inverse_width_f32;
  float weight_offset;
  uint32_t zero;  // 0, which the compiler must not know: see hide in norm_stages.cuh
};
static_assert(sizeof(BackwardCudaParams) == 128, "host and device read the same bytes");

/// cuda_columns, for any layouts.
struct BackwardColumnsParams {
  BackwardCudaParams call;
  StridedView dy, x, dresidual, dx;  // leading dimensions of one stride are one; the columns
  int64_t weight_stride;
  void* scales;            // [rows] of BackwardScale
  int64_t rows_per_group;  // that one thread adds up
};
static_assert(sizeof(BackwardColumnsParams) == 128 + 4 * 144 + 24,
              "host and device read the same bytes");

/// A row's r = first · second, and s = mean(g · x) · r.
struct BackwardScale {
  float first, second, s;
};

/// The last kernel of both: dweight from partial sums.
struct BackwardFoldParams {
  const float* partials;
  void* dweight;
  int64_t dweight_stride, width, groups;
};
static_assert(sizeof(BackwardFoldParams) == 40, "host and device read the same bytes");
/// Its blocks have columns × parts threads; each part takes a share of the groups.
inline constexpr int kFoldColumns = 32, kFoldParts = 32;

/// 32-bit words that a thread of cuda_registers holds while it waits for a row's sums.
constexpr int backward_held_words(const NormCudaTraits& s, const BackwardRegistersConfig& c) {
  const int row = (norm_elements(s) * size_of(s.type) + 3) / 4;
  const int weight = (norm_elements(s) * size_of(s.weight) + 3) / 4;
  return c.vectors * (row * ((c.prefetch ? 4 : 2) + (s.add ? 1 : 0)) + weight + norm_elements(s));
}
/// True if this configuration compiles for these traits.
constexpr bool valid(const NormCudaTraits& s, const BackwardRegistersConfig& c) {
  const int block = c.threads * c.rows;
  // Without bounds checks, the next access begins while one is still held as floats, both unrounded
  // and rounded.
  const int rounded = s.full && s.cast_before_weight ? 2 * norm_elements(s) : 0;
  // Registers are allocated in steps of 8 per thread, and a thread has at most 255.
  const int registers = (backward_held_words(s, c) + rounded + 40 + 7) / 8 * 8;
  return block >= 64 && block <= kMaxBlockThreads && block * c.blocks <= 1536 &&
         (c.threads <= 32 || c.rows <= kMaxNamedBarriers) && registers <= 248 &&
         registers * block * c.blocks <= 65536;
}

}  // namespace dlblas::norm
