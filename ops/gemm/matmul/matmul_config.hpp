// What the host code and the instruction-set objects of matmul share: parameters, configurations,
// and the entry points that each level defines in its own namespace.
// In: nothing but plain values; no inline function may appear here, an instruction-set object would
// keep its own copy of it for everyone.
// Flow: [compile] fills a configuration, [launch] the parameters.  Read next: cpu/matmul_cpu.cpp.
#pragma once

#include <cstdint>

#include "cpu/element.hpp"
#include "ops/gemm/activation.hpp"

namespace dlblas::gemm {

/// Inputs and results in schema order, key scalars in schema order.
enum Tensor : int { kA, kB, kBias, kOut };
enum Letter : int { kM, kK, kN };
enum Scalar : int { kActivation, kOutDtype };

/// A strided matrix; strides in elements, of any sign, 0 included.
struct Matrix {
  void* data;
  std::int64_t row, col;
  Element type;
};

/// The order of sums: K alone decides where a sum begins, so no tile, block or thread count changes
/// a bit. A chain of multiply-adds starts afresh every `chain` depths; chains add up to a run, runs
/// to a span, each from first to last; spans are added with the error of each addition kept. So the
/// error does not grow with K.
struct MatmulSums {
  std::int64_t chain, run, span;
};
inline constexpr MatmulSums kLongSums = {256, 256, 8192};
/// Vectors, and products so small that libraries add up many short sums: what these cost goes
/// unseen there (few rows), or is a fourth of little (blocks).
inline constexpr MatmulSums kFewRowsSums = {64, 256, 8192};
inline constexpr MatmulSums kMiddleSums = {32, 128, 8192};
inline constexpr MatmulSums kShortSums = {8, 64, 1024};

/// One call: out[m, n] = act(a[m, k] · b[k, n] + bias[n]).
struct MatmulParams {
  Matrix a, b, out;
  Matrix bias;  // row unused; data null when absent
  std::int64_t m, n, k;
  Activation activation;
  MatmulSums sums;
};

/// Which loop around the register tile is outer. The inner loop's panel streams through L1 while
/// the outer one's stays there.
enum class Order : std::int32_t { kColumns, kRows };
/// What the threads divide: columns need no barrier (each packs its own part of b), rows share a
/// packed b.
enum class Split : std::int32_t { kColumns, kRows };

/// Configuration of the blocked form. `tile` indexes the level's table of register tiles.
struct MatmulConfig {
  std::int32_t tile;
  std::int32_t block_m, block_n, block_k;
  std::int32_t unroll_k;
  std::int32_t prefetch;  // rows of the packed b fetched ahead into L1; 0: none
  Order order;
  Split split;
  bool pack_a;  // false: the register tile reads f32 a in place
};

/// Configuration of the few-row form.
struct MatmulRowConfig {
  std::int32_t unroll_k;  // rows (or, for a transposed b, columns) of b streamed side by side
  std::int32_t block_n;   // columns whose partial sums stay in L1
  std::int32_t prefetch;  // bytes ahead in every stream; 0: none
  bool dots;  // b is contiguous along K, and its columns are dot products; no knob, of the problem
};

/// Shape of one register tile.
struct MatmulTile {
  std::int32_t m, n;
};
inline constexpr int kMaxTiles = 5;
/// Widest row group of the few-row form: more rows stream b again.
inline constexpr int kMaxRowGroup = 8;
/// Sums that the few-row form keeps of each element: of a chain, a run, a span, all spans, and the
/// error of the last.
inline constexpr int kRowPlanes = 5;
/// f32 values that packing may write past a panel's end.
inline constexpr int kPackSlack = 16;

/// One cache block of the product: rows [i0, i1), columns [j0, j1), depth [k0, k1).
struct MatmulBlock {
  std::int64_t i0, i1, j0, j1, k0, k1;
};
/// Where a block's f32 partial sums live between depths: element (i, j) of the output is at
/// data[(i - i0) · ld + (j - j0)]. `padded`: tiles may write past i1 and j1 (scratch, not the
/// output). Where K has more than one span, the total of the spans before and its error lie `plane`
/// and 2 · `plane` floats on.
struct MatmulPartial {
  float* data;
  std::int64_t ld;
  std::int64_t i0, j0;
  bool padded;
  std::int64_t plane;
};

/// The level's code, as the host code sees it.
struct MatmulLevel {
  const MatmulTile* tiles;
  int num_tiles;
  /// Packs columns [j0, j1) × depth [k0, k1) of b into panels of the tile's width.
  void (*pack_b)(const MatmulParams&, const MatmulConfig&, const MatmulBlock&, float* packed_b);
  /// Adds one block's products; packed_b starts at the block's j0. Writes the result at the last
  /// depth.
  void (*multiply)(const MatmulParams&, const MatmulConfig&, const MatmulBlock&,
                   const float* packed_b, float* a_buffer, const MatmulPartial& partial);
  /// Columns [j0, j1) of a few-row product, whole depth. `rows`: of pack_rows; `sums`:
  /// kRowPlanes · kMaxRowGroup · block_n floats.
  void (*row)(const MatmulParams&, const MatmulRowConfig&, std::int64_t j0, std::int64_t j1,
              const float* rows, float* sums);
  /// a as f32: rows side by side at each depth, or for dot products one after the other; rows past
  /// m, up to a power of two, are zero.
  void (*pack_rows)(const MatmulParams&, const MatmulRowConfig&, float* rows);
};

}  // namespace dlblas::gemm

namespace dlblas::baseline {
extern const gemm::MatmulLevel kMatmulLevel;
}
namespace dlblas::avx2 {
extern const gemm::MatmulLevel kMatmulLevel;
}
namespace dlblas::avx512 {
extern const gemm::MatmulLevel kMatmulLevel;
}
