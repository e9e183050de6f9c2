// What host and kernel of products with packed weights agree on: plain values. Read next:
// product.hpp, product_rows.cuh.
#pragma once

#include "ops/w4/dequantize_config.hpp"

namespace dlblas::w4 {

/// Columns of a block.
inline constexpr int kProductColumns = 64;

struct ProductTraits {
  DType type;    // of x, scales and y
  bool along_k;  // a word holds eight rows of the weight (GPTQ), else eight columns (AWQ)
  bool zeros;
  int32_t tiles;  // of 16 rows of x, a block's
  /// Rows of the weight that a warp takes at a time.
  constexpr int32_t depth() const { return along_k ? 32 : 16; }
  constexpr int32_t sums() const { return tiles * kProductColumns / 8 * 4; }  // of a thread
};

struct ProductConfig {
  int32_t warps = 8;   // parts of K, of a block
  int32_t unroll = 2;  // steps of depth() that are loaded before the first is needed
  int32_t split = 1;   // blocks along K; above 1 a second kernel adds their sums, in order
  bool ahead = false;  // the next steps are loaded while these are multiplied
  constexpr int32_t threads() const { return 32 * warps; }
};

struct ProductParams {
  W4Params w;
  const void* x;
  int64_t x_row;
  int64_t m;
  float* partial;  // [split, m, columns]
};
inline constexpr int kProductFinishThreads = 256;

}  // namespace dlblas::w4
