// Shared by the host and the CUDA kernels of the norm family: traits from the Problem, one searched
// configuration per kernel, the parameters of a launch. Compiled by g++, clang and NVRTC alike, so
// it must not include system headers. Flow: call > validate > select > [compile] > [launch].
// Read next: ops/norm/cuda/norm_cuda.hpp (host), ops/norm/cuda/norm_stages.cuh (device).
#pragma once

#include "device/types.hpp"

namespace dlblas::norm {

/// What a kernel is compiled for. One access is `align` bytes, which divides the address and the
/// length of every row; if it is below the element's size, elements are read byte by byte.
struct NormCudaTraits {
  DType type;               // of x, residual and both results
  DType weight;             // type, or f32; type where there is none
  bool add;                 // h = round(x + residual) first
  bool cast_before_weight;  // rounds to `type` before the weight
  int32_t align;            // bytes: 16, 8, 4, 2 or 1
  int32_t weight_align;     // bytes, of the weight's address; 0: there is none
  bool full;                // threads and vectors hold exactly one row: no bounds to check
};
/// Elements per access.
constexpr int norm_elements(const NormCudaTraits& s) {
  return s.align < size_of(s.type) ? 1 : s.align / size_of(s.type);
}

/// cuda_ring: rows stream through shared memory, each warp through its own ring buffer. One warp
/// more than `threads` adds up the rows' sums; the blocks of a row exchange theirs through the
/// workspace, which needs a cooperative launch.
struct NormRingConfig {
  int32_t threads = 512;
  int32_t vectors = 8;  // accesses of one thread and row
  int32_t step = 2;     // accesses of a stage: asked for, and waited for, together
  int32_t blocks = 8;   // that share a row
  int32_t depth = 3;    // stages in flight; the others that fit wait for their row's total
};

/// cuda_split: rows in chunks of threads × vectors accesses, over the whole grid.
struct NormSplitConfig {
  int32_t threads = 512;
  int32_t vectors = 4;  // accesses of one thread and chunk
  int32_t blocks = 2;   // of a multiprocessor
  int32_t ahead = 1;    // rounds of the grid between a chunk's sum and its result
};

/// One call. Strides are in elements, between rows.
struct NormCudaParams {
  const void* x;
  const void* residual;  // with `add`
  const void* weight;
  void* y;
  void* residual_out;  // with `add`
  int64_t x_stride, residual_stride, y_stride, residual_out_stride;
  int64_t rows, width;
  double eps, inverse_width;
  float eps_f32, inverse_width_f32;
  float weight_offset;  // without a weight 1
};
static_assert(sizeof(NormCudaParams) == 120, "host and device read the same bytes");

/// The sums of rows shared by blocks of the whole grid, in the workspace.
struct GridRowSum {
  uint32_t* arrived;  // [rows] parts that are there; 0 before the launch
  double* totals;     // [rows] sums of squares; 0 (before the launch): not there, negative: zero
  double* parts;      // [rows, members]
  int32_t members;    // parts of a row
  uint32_t unused;
};
struct ZeroFillParams {
  uint32_t* words;  // to be 0
  int64_t count;
};
static_assert(sizeof(ZeroFillParams) == 16, "host and device read the same bytes");
struct NormSplitParams {
  NormCudaParams call;
  GridRowSum row_sum;
  uint32_t* ticket;  // the next item; 0 before the launch
  int64_t lag;       // rows between a chunk's sum and its result
};
static_assert(sizeof(NormSplitParams) == 168, "host and device read the same bytes");
struct NormRingParams {
  NormCudaParams call;
  double* parts;       // [rows, copies, blocks] sums of squares; anything before the launch
  int32_t rounds;      // rows of a group of blocks; one fewer from group `last_round` on
  int32_t last_round;  // groups that have a row in the last round
};
static_assert(sizeof(NormRingParams) == 136, "host and device read the same bytes");

constexpr int kMaxBlockThreads = 1024;
constexpr int kMaxNamedBarriers = 15;  // beside that of __syncthreads

/// Registers per thread that holds `vectors` accesses of the row and of the weight.
constexpr int norm_registers_needed(const NormCudaTraits& s, int vectors) {
  const int row = (norm_elements(s) * size_of(s.type) + 3) / 4;
  const int weight = (norm_elements(s) * size_of(s.weight) + 3) / 4;
  return vectors * (row + weight) + 32;
}
/// True if this configuration compiles for these traits. Used by the host's search spaces and by
/// the kernels' static_asserts.
constexpr bool valid(const NormCudaTraits& s, const NormSplitConfig& c, int) {
  return c.threads > 32 && c.threads <= kMaxBlockThreads && c.blocks * c.threads <= 1536 &&
         norm_registers_needed(s, c.vectors) * c.threads * c.blocks <= 65536;
}

/// Copies of a row's partial sums, if `blocks` blocks of cuda_ring share the row.
constexpr int norm_ring_copies(int blocks) { return blocks < 64 ? 1 : 8; }
/// Stages per row of cuda_ring.
constexpr int norm_ring_stages(const NormRingConfig& c) { return c.vectors / c.step; }
/// Stages between a sum and its result: as many as fit in shared memory beside the stages in
/// flight, at most three rows. With `add`, both x and residual are in flight, but only h is kept.
constexpr int norm_ring_lag(const NormCudaTraits& s, const NormRingConfig& c) {
  const int room = 227 * 1024 - 3072;
  const int lag = room / (c.threads * c.step * 16) - c.depth * (s.add ? 2 : 1);
  const int most = 3 * norm_ring_stages(c);
  return lag > most ? most : lag;
}
constexpr int norm_ring_bytes(const NormCudaTraits& s, const NormRingConfig& c) {
  return (norm_ring_lag(s, c) + c.depth * (s.add ? 2 : 1)) * c.threads * c.step * 16;
}
constexpr bool valid(const NormCudaTraits& s, const NormRingConfig& c, int arch) {
  return arch >= 90 && s.align == 16 && c.vectors % c.step == 0 &&
         norm_ring_lag(s, c) > norm_ring_stages(c);
}

}  // namespace dlblas::norm
