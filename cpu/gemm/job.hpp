// One matrix product on a CPU, as host code and the objects of all instruction sets see it:
// operands, the order of sums, configurations, and the code that a level has for one epilogue.
// In: nothing but plain values; no inline function may appear here, an instruction-set object would
// keep its own copy of it for everyone.
// Flow: [compile] fills a configuration, [launch] the job.  Read next: cpu/gemm/epilogue.hpp (what
// an operator writes), cpu/gemm/run.hpp (what runs it).
#pragma once

#include <stdint.h>

#include "device/dtype.hpp"

namespace dlblas {

/// A strided matrix; strides in elements, of any sign, 0 included.
struct GemmMatrix {
  void* data;
  int64_t row, col;
  DType type;
};

/// The order of sums. The problem's sizes decide where a sum begins, so no tile, block or thread
/// count changes a bit. A chain of multiply-adds starts afresh every `chain` depths; chains add up
/// to a run, runs to a span, each from first to last; spans are added with the error of each
/// addition kept. So the error does not grow with K.
struct GemmSumOrder {
  int64_t chain, run, span;
};
inline constexpr GemmSumOrder kLongSums = {256, 256, 8192};
/// Of tiles that add up 32 terms at once (AMX): a chain of 64. One of 256, all of 8192, was 2.8
/// times as far off as NumPy on uniform inputs.
inline constexpr GemmSumOrder kTileSums = {32, 32, 2048};
/// Vectors, and products so small that libraries add up many short sums: what these cost goes
/// unseen there (few rows), or is a fourth of little (blocks).
inline constexpr GemmSumOrder kFewRowsSums = {128, 256, 8192};
inline constexpr GemmSumOrder kMiddleSums = {32, 128, 8192};
inline constexpr GemmSumOrder kShortSums = {8, 64, 1024};

/// The products a[m, k] · b[part][k, n], and what becomes of them.
struct GemmJob {
  GemmMatrix a;
  GemmMatrix b[2];  // the second only of an epilogue of two parts (a gate and what it scales)
  int64_t m, n, k;
  GemmSumOrder sums;
  /// Rows of f32 that partial sums may wait in: those of a result. Null: none.
  float* partial;
  int64_t partial_row;   // floats
  const void* epilogue;  // its Params
};

/// Which loop around the register tile is outer. The inner loop's panel streams through L1 while
/// the outer one's stays there.
enum class GemmOrder : int32_t { kColumns, kRows };
/// What the threads divide: columns need no barrier (each packs its own part of b), rows share a
/// packed b.
enum class GemmSplit : int32_t { kColumns, kRows };

/// Configuration of the blocked form. `tile` indexes the level's table of register tiles.
struct CpuGemmConfig {
  int32_t tile;
  int32_t block_m, block_n, block_k;
  int32_t unroll_k;
  int32_t prefetch;  // rows of the packed b fetched ahead into L1; 0: none
  GemmOrder order;
  GemmSplit split;
  bool pack_a;  // false: the register tile reads f32 a in place
};

/// As `prefetch`: the rows of b that take the place of those at work. Of columns that are shorter
/// than a page a fetch ahead in the stream would run into what another thread reads.
inline constexpr int32_t kNextRows = -1;
/// Configuration of the few-row form.
struct CpuGemmRowConfig {
  int32_t unroll_k;  // rows (or, for a transposed b, columns) of b streamed side by side
  int32_t block_n;   // columns whose partial sums stay in L1
  int32_t prefetch;  // bytes ahead in every stream; 0: none; kNextRows
  bool dots;  // b is contiguous along K, and its columns are dot products; no knob, of the problem
};

/// Shape of one register tile.
struct GemmTile {
  int32_t m, n;
};
/// Widest row group of the few-row form.
inline constexpr int kMaxRowGroup = 8;
/// Most rows of it where b is transposed. From kSharedRows on kSharedColumns are taken at a time,
/// for all groups of rows: those columns stay in the second-level cache, and parts of a of
/// kSharedDepth at most in the first. Of a row-major b a group's columns are too many: more rows
/// than a group's would stream b again.
inline constexpr int kMaxDotRows = 32, kSharedRows = 9, kSharedColumns = 32, kSharedDepth = 512;
/// Most rows, and least columns, of the few-row form by tiles (AMX), whose b lies along K.
inline constexpr int kMaxRowsOfTiles = 64, kMinColumnsOfTiles = 16;
/// Does the few-row form of m rows take columns so?
constexpr bool shares_columns(bool dots, int64_t m) { return dots && m >= kSharedRows; }
/// Whole groups' rows.
constexpr int64_t group_rows(int64_t m) {
  return (m + kMaxRowGroup - 1) / kMaxRowGroup * kMaxRowGroup;
}
/// Sums that the few-row form keeps of each element: of a chain, a run, a span, all spans, and the
/// error of the last.
inline constexpr int kRowPlanes = 5;
/// f32 values that packing may write past a panel's end.
inline constexpr int kPackSlack = 16;

/// One cache block of the product: rows [i0, i1), columns [j0, j1), depth [k0, k1).
struct GemmBlock {
  int64_t i0, i1, j0, j1, k0, k1;
};
/// Packed operands of a block.
struct GemmPanels {
  const float* b;  // starts at the block's j0; as the code's pack_b leaves it
  int64_t part;    // floats from one part of b to the next
  float* a;        // room to pack a
};
/// Where a block's f32 partial sums live between depths: row i of the tile that begins at column j
/// is at data[(i - i0) · ld + (j - j0) · column + part · index]. `padded`: tiles may write past i1
/// and j1 (scratch, not a result). Of scratch a tile's rows follow each other (`ld` is its width):
/// they lie in one page. Where K has more than one span, the total of the spans before and its
/// error lie `plane` and 2 · `plane` floats on.
struct GemmPartial {
  float* data;
  int64_t ld, column;
  int64_t i0, j0;
  bool padded;
  int64_t plane, part;
};

inline constexpr int kWholeBlock = 0;

/// A level's code with one epilogue, as the host code sees it.
struct GemmCode {
  const GemmTile* tiles;
  int num_tiles;
  int parts;  // the epilogue's
  /// A packed row or column has whole multiples of `depths`, zeros past K's end, and `pad` more
  /// that nothing reads (so that panels do not begin a power of two apart); a float of the panel
  /// has `depths_per_float`.
  int depths, depths_per_float, pad;
  /// Depths of a block that are multiplied at a time, for all rows and a tile's columns (or the
  /// other way around); kWholeBlock: all.
  int step;
  /// Packs columns [j0, j1) × depth [k0, k1) of a part of b into panels of the tile's width.
  void (*pack_b)(const GemmJob&, const CpuGemmConfig&, const GemmBlock&, int part, float* packed_b);
  /// Adds one block's products. The epilogue runs at the last depth.
  void (*multiply)(const GemmJob&, const CpuGemmConfig&, const GemmBlock&, const GemmPanels&,
                   const GemmPartial&);
  /// Columns [j0, j1) of a few-row product, whole depth. `rows`: of pack_rows; `sums`:
  /// parts · kRowPlanes · kMaxRowGroup · block_n floats.
  void (*row)(const GemmJob&, const CpuGemmRowConfig&, int64_t j0, int64_t j1, const float* rows,
              float* sums);
  /// a as f32 (AMX: as pairs of bf16): rows side by side at each depth, or for dot products one
  /// after the other, where columns are shared in parts of their depth; rows past m, up to a power
  /// of two or whole groups, are zero.
  void (*pack_rows)(const GemmJob&, const CpuGemmRowConfig&, float* rows);
};

}  // namespace dlblas
