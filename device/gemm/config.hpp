// What host code and the GPU mainloops of matrix products share: traits (of the operands),
// configurations (searched), parameters (of one call). An operator adds an epilogue, which
// processes finished sums.
// In: plain values only; read by the host compiler and by NVRTC.
// Flow: [compile] writes traits, configuration and epilogue as template values, [launch] the
// parameters. Read next: epilogue.cuh, mma_mainloop.cuh, rows_mainloop.cuh, gemv_mainloop.cuh,
// fma_mainloop.cuh.
#pragma once

#include "device/types.hpp"

namespace dlblas {

/// What the Problem fixes of a product a[M, K] · b[K, N].
struct GemmTraits {
  DType type;       // of a and b
  bool a_by_depth;  // a is contiguous along K, not along M
  bool b_by_depth;  // b is contiguous along K (a linear layer's weight), not along N
  bool a_whole;     // the contiguous dimension is a multiple of eight: chunks are whole
  bool b_whole;
  bool aligned;  // every element is aligned to its size (a view of bytes need not be)
  int32_t rows;  // the forms of few rows: no call has more; else 0
  /// Terms of K that are summed before the sum is carried (device/carried_sum.cuh); 0: all of the
  /// block's K, in one f32 sum.
  int32_t span;
};

/// Shared memory for the carried pairs of a block's sums.
constexpr int carried_bytes(int32_t span, int sums) { return span > 0 ? sums * 8 : 0; }

/// One product. Strides in elements, of any sign.
struct GemmCall {
  const void* a;
  /// An epilogue with two parts (a gate and what it scales) has two matrices b with the same
  /// strides; otherwise the second is null.
  const void* b[2];
  float* partial;  // [split_k, m, columns rounded up to 8]: sums, where split_k > 1
  int64_t a_row, a_col, b_row, b_col;
  int64_t m, n, k;  // n: columns of each b
};

/// The parameters of a kernel: those of the product and of the epilogue.
template <typename Epilogue>
struct GemmParams {
  GemmCall gemm;
  typename Epilogue::Params epilogue;
};

/// A result, as epilogues see it; strides in elements.
struct GemmOut {
  void* data;
  int64_t row, col;
};
/// What the Problem fixes of the result.
struct GemmOutTraits {
  DType type;
  bool vector;   // rows are contiguous and 16-byte aligned
  bool aligned;  // every element is aligned to its size
};

/// The tensor-core form. A block computes block_m × block_n, split evenly over warps_m × warps_n
/// warps; tiles of depth block_k wait in a ring of `stages`.
struct GemmMmaConfig {
  int32_t block_m, block_n, block_k, stages, warps_m, warps_n;
  int32_t group_m;  // rows of blocks that are walked together: they share columns of b in L2
  int32_t split_k;  // blocks along K; above 1 a second kernel adds their sums, in order

  constexpr int threads() const { return 32 * warps_m * warps_n; }
  constexpr int warp_m() const { return block_m / warps_m; }
  constexpr int warp_n() const { return block_n / warps_n; }
  /// Floats between rows of a warp's sums in shared memory: an odd multiple of 8, so that four row
  /// pairs cover all 32 banks.
  constexpr int pitch() const { return warp_n() / 8 % 2 == 0 ? warp_n() + 8 : warp_n(); }
  /// The ring; the sums reuse it once it is free. The carried sums follow it.
  constexpr int ring_bytes() const {
    const int ring = stages * (block_m + block_n) * block_k * 2;
    const int epilogue = warps_m * warps_n * 16 * pitch() * 4;
    return ring > epilogue ? ring : epilogue;
  }
  constexpr int shared_bytes(int32_t span) const {
    return ring_bytes() + carried_bytes(span, block_m * block_n);
  }
};
/// Registers: 48 × 88 sums per warp take 132 per thread, beside 68 for operands.
constexpr bool valid(const GemmMmaConfig& c) {
  return c.block_m % (16 * c.warps_m) == 0 && c.block_n % (8 * c.warps_n) == 0 &&
         c.warp_n() >= 16 && c.warp_m() * c.warp_n() <= 48 * 88 && c.threads() >= 64 &&
         c.threads() <= 256 && c.stages >= 2;
}

/// Threads of a block of gemm_mma_finish.
inline constexpr int kGemmFinishThreads = 256;

/// The few-row form: m ≤ 16. A warp computes `columns` of b over one of `warps` parts of K.
struct GemmRowsConfig {
  int32_t columns;  // 8, 16 or 32; 32 or 64 where b is contiguous along N
  int32_t warps;
  int32_t unroll;  // tiles of K whose loads are in flight together

  constexpr int threads() const { return 32 * warps; }
  /// The warps' sums; carried pairs where K is summed in spans.
  constexpr int shared_bytes(int32_t span) const {
    return warps * columns * 16 * (span > 0 ? 8 : 4);
  }
};

/// The form for one to four rows: a warp streams `columns` of b along one of `split` parts of K.
struct GemvConfig {
  int32_t columns;  // of all parts
  int32_t warps;
  int32_t unroll;  // accesses of 16 bytes a lane and column whose loads are in flight together
  int32_t split;   // divides `warps`

  constexpr int threads() const { return 32 * warps; }
  constexpr int block_columns() const { return warps / split * columns; }
};
constexpr bool valid(const GemvConfig& c) {
  return c.warps % c.split == 0 && c.unroll * c.columns <= 16;
}

/// The short GemmTraits::span of the multiply-add form, for few sums: fours are added first.
inline constexpr int32_t kShortFmaSpan = 32;

/// The multiply-add form: any strides, any type, f32 sums. A thread computes thread_m × thread_n.
struct GemmFmaConfig {
  int32_t block_m, block_n, block_k, thread_m, thread_n;

  constexpr int threads() const { return (block_m / thread_m) * (block_n / thread_n); }
  /// Two buffers of both tiles; rows are padded by 4 floats against bank conflicts.
  constexpr int buffer_bytes() const { return 2 * block_k * (block_m + block_n + 8) * 4; }
  constexpr int shared_bytes(int32_t span) const {
    return buffer_bytes() + carried_bytes(span, block_m * block_n);
  }
};
constexpr bool valid(const GemmFmaConfig& c) {
  const int threads = c.threads();
  return threads >= 64 && threads <= 512 && threads % c.block_k == 0 && threads % c.block_m == 0 &&
         threads % c.block_n == 0 && c.block_m * c.block_k % threads == 0 &&
         c.block_n * c.block_k % threads == 0;
}

}  // namespace dlblas
