// What the host and the kernels of products with packed weights share: plain values. Read next:
// product.hpp, product_rows.cuh.
#pragma once

#include "device/tensor_map.hpp"
#include "ops/w4/dequantize_config.hpp"

namespace dlblas::w4 {

/// Columns per block.
inline constexpr int kProductColumns = 64;

/// How a weight's codes are stored. kI8: [N, K], with one f32 scale per row or per group of it.
enum class Codes : int32_t { kAwq, kGptq, kI8 };

struct ProductTraits {
  DType type;  // of x and y; of the scales of 4-bit codes
  Codes codes;
  bool zeros;
  int32_t tiles;             // of 16 rows of x, a block's
  bool scaled_sums = false;  // the scale multiplies a column's sum, else each element of the weight
  DType bias = DType::kAbsent;
  /// Rows of the weight that a warp takes at a time.
  constexpr int32_t depth() const {
    return codes == Codes::kI8 ? 64 : codes == Codes::kGptq ? 32 : 16;
  }
  /// Registers of a batch of `unroll` steps: codes and x.
  constexpr int32_t loaded(int32_t unroll) const {
    const int32_t words = codes == Codes::kI8 ? 32 : codes == Codes::kGptq ? 8 : 4;
    return unroll * (words + depth() / 4 * tiles);
  }
  constexpr int32_t sums() const { return tiles * kProductColumns / 8 * 4; }  // of a thread
};

struct ProductConfig {
  int32_t warps = 8;   // parts of K, of a block
  int32_t unroll = 2;  // steps of depth() that are loaded before the first is needed
  int32_t split = 1;   // blocks along K; above 1 a second kernel adds their sums, in order
  bool ahead = false;  // the next steps are loaded while these are multiplied
  constexpr int32_t threads() const { return 32 * warps; }
};

/// For the form that streams words through shared memory (product_ring.cuh).
struct RingTraits {
  DType type;
  Codes codes;  // kI8: with one scale per column
  bool zeros;
  int32_t eights;  // of 8 rows of x, a block's
  bool scaled_sums = false;
  DType bias = DType::kAbsent;
  constexpr bool along_k() const { return codes == Codes::kGptq; }
  constexpr bool i8() const { return codes == Codes::kI8; }
};

struct RingConfig {
  int32_t warps_n = 2;  // of 64 columns each
  int32_t warps_k = 4;  // of 64 rows of the weight each
  int32_t stages = 4;
  int32_t split = 1;  // blocks along K; above 1 a second kernel adds their sums, in order
  constexpr int32_t warps() const { return warps_n * warps_k; }
  constexpr int32_t threads() const { return 32 * warps(); }
  constexpr int32_t columns() const { return 64 * warps_n; }
  constexpr int32_t depth() const { return 64 * warps_k; }
  // Bytes of a stage: words, x, and the scales and zeros of each 64 rows.
  constexpr int32_t word_bytes(RingTraits s) const {
    return depth() * columns() / (s.i8() ? 1 : 2);
  }
  constexpr int32_t x_bytes(int32_t eights) const { return 8 * eights * depth() * 2; }
  constexpr int32_t scale_bytes(RingTraits s) const { return s.i8() ? 0 : warps_k * columns() * 2; }
  constexpr int32_t zero_bytes(RingTraits s) const { return s.i8() ? 0 : warps_k * columns() / 2; }
  constexpr int32_t stage_bytes(RingTraits s) const {
    return word_bytes(s) + x_bytes(s.eights) + scale_bytes(s) + zero_bytes(s);
  }
  constexpr int32_t sums_bytes(int32_t eights) const { return warps() * eights * 16 * 32 * 4; }
  constexpr int32_t shared_bytes(RingTraits s) const {
    const int32_t ring = stages * stage_bytes(s), sums = sums_bytes(s.eights);
    return ring > sums ? ring : sums;
  }
};

/// For the form on WGMMA (product_wgmma.cuh).
struct WgmmaTraits {
  DType type;
  Codes codes;  // kI8: with one scale per column
  bool zeros;
  int32_t rows;  // of x, a block's: 8, 16, 32 or 64
  bool scaled_sums = false;
  DType bias = DType::kAbsent;
  constexpr bool along_k() const { return codes == Codes::kGptq; }
  constexpr bool i8() const { return codes == Codes::kI8; }
};

struct WgmmaConfig {
  int32_t groups = 2;  // warpgroups, which take stages in turn
  int32_t stages = 8;
  int32_t split = 1;                                                // blocks along K, a cluster
  static constexpr int32_t kColumns = 256, kDepth = 64;             // of a stage
  constexpr int32_t threads() const { return 128 * (groups + 1); }  // one group copies
  /// Registers per thread: at launch, then of a copying and of a multiplying thread. The latter
  /// must not take more than the others gave back: it would wait forever.
  constexpr int32_t launched() const { return 65536 / threads() / 8 * 8; }
  constexpr int32_t few() const { return groups == 2 ? 40 : groups == 3 ? 32 : 24; }
  constexpr int32_t many() const {
    return groups == 1 ? 248 : (launched() * threads() - 128 * few()) / (128 * groups) / 8 * 8;
  }
  // Bytes of a stage: words, x, and the scales and zeros of its group.
  static constexpr int32_t word_bytes(WgmmaTraits s) {
    return kDepth * kColumns / (s.i8() ? 1 : 2);
  }
  static constexpr int32_t x_bytes(WgmmaTraits s) { return 2 * kDepth * s.rows; }
  static constexpr int32_t kScales = 2 * kColumns, kZeros = kColumns / 2;
  static constexpr int32_t stage_bytes(WgmmaTraits s) {  // tiles begin at multiples of 1024
    return word_bytes(s) + x_bytes(s) + (s.i8() ? 0 : 1024);
  }
  constexpr int32_t shared_bytes(WgmmaTraits s) const {
    const int32_t ring = stages * stage_bytes(s), sums = kColumns * s.rows * 4;
    return 1024 + (ring > sums ? ring : sums) + 16 * stages;
  }
};

struct ProductParams {
  W4Params w;
  const void* x;
  int64_t x_row;
  int64_t m;
  const void* bias;  // of i8 codes
  int64_t bias_step;
  float* partial;  // [split, m, columns]
};
/// For the form on WGMMA: adds the copy engine's views of words, x, scales and zeros.
struct WgmmaCall {
  TensorMap words, x, scales, zeros;
  ProductParams p;
};
inline constexpr int kProductFinishThreads = 256;

}  // namespace dlblas::w4
