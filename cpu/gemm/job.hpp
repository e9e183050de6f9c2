// One matrix product on a CPU, as host code and the objects of all instruction sets see it:
// operands, the order of sums, configurations, a level's loops, and its code for one epilogue.
// In: plain values only; but for trivial constexpr ones, no inline function may appear here, since
// an instruction-set object would keep its own copy of it for everyone.
// Flow: [compile] fills a configuration, [launch] the job. Read next: cpu/gemm/epilogue.hpp (what
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

/// The source of packing: lanes are `lane` elements apart, depths `depth`.
struct PackSource {
  const void* data;
  int64_t lane, depth;
};

/// The order of sums. The problem's sizes decide where a sum begins, so no tile, block or thread
/// count changes a bit. A chain of multiply-adds restarts every `chain` depths; chains are added
/// into a run, runs into a span, each from first to last; spans are added with the error of each
/// addition kept. So the error does not grow with K.
struct GemmSumOrder {
  int64_t chain, run, span;
};
inline constexpr GemmSumOrder kLongSums = {256, 256, 8192};
/// For tiles that add 32 terms at once (AMX): a chain of 64 such additions. One of 256, over all of
/// 8192, had 2.8 times the error of NumPy on uniform inputs.
inline constexpr GemmSumOrder kTileSums = {32, 32, 2048};
/// For vectors, and for products so small that libraries add up many short sums: there the cost is
/// hidden (few rows), or a fourth of little (blocks).
inline constexpr GemmSumOrder kFewRowsSums = {128, 256, 8192};
inline constexpr GemmSumOrder kMiddleSums = {32, 128, 8192};
inline constexpr GemmSumOrder kShortSums = {8, 64, 1024};

/// Shape of one register tile.
struct GemmTile {
  int32_t m, n;
};
/// One cache block of the product: rows [i0, i1), columns [j0, j1), depth [k0, k1).
struct GemmBlock {
  int64_t i0, i1, j0, j1, k0, k1;
};
/// The most products that share an a.
inline constexpr int kMaxParts = 2;
/// What follows the sums, as a level compiled it; cpu/gemm/epilogue.hpp says how it is written.
struct GemmEpilogue {
  int parts;
  /// Stores columns [j, j + n) of row i; sums[part][c] belongs to column j + c of a · b[part].
  void (*store)(const void* params, int64_t i, int64_t j, int64_t n, const float* const* sums);
  /// The f32 result with contiguous rows that whole tiles of sums may go to directly; null where
  /// there is none, or never one.
  const GemmMatrix* (*plain)(const void* params);
  /// Replaces `store` in blocks; may be null.
  void (*store_tile)(const void* params, const GemmBlock& of, GemmTile tile, const float* sums);
};

/// The products a[m, k] · b[part][k, n], and what is done with them.
struct GemmJob {
  GemmMatrix a;
  GemmMatrix
      b[kMaxParts];  // the second only of an epilogue of two parts (a gate and what it scales)
  int64_t m, n, k;
  GemmSumOrder sums;
  /// Rows of f32 that may hold partial sums: those of a result. Null: none.
  float* partial;
  int64_t partial_row;  // floats
  const GemmEpilogue* epilogue;
  const void* params;  // the epilogue's
  /// b[0] in panels, see below; null: b lies at its strides.
  const void* panels;
};

/// Which loop around the register tile is outer. The inner loop's panel streams through L1 while
/// the outer loop's stays there.
enum class GemmOrder : int32_t { kColumns, kRows };
/// What the threads divide: columns need no barrier (each packs its own part of b), rows share a
/// packed b.
enum class GemmSplit : int32_t { kColumns, kRows };

/// Configuration of the blocked form. `tile` indexes the level's table of register tiles.
struct CpuGemmConfig {
  int32_t tile;
  int32_t block_m, block_n, block_k;
  GemmOrder order;
  GemmSplit split;
  bool pack_a;  // false: a register tile of few rows reads f32 a in place
};

/// A value for `prefetch`: the rows of b that replace the current ones. Where columns are shorter
/// than a page, a prefetch further along the stream would run into what another thread reads.
inline constexpr int32_t kNextRows = -1;
/// Configuration of the few-row form.
struct CpuGemmRowConfig {
  int32_t tiles;     // of b side by side, on a unit with tiles
  int32_t block_n;   // columns whose partial sums stay in L1
  int32_t prefetch;  // bytes ahead in every stream; 0: none; kNextRows. Streams of f32 take none
  bool dots;  // b is contiguous along K, and its columns are dot products; no knob, of the problem
};

/// Tiles of up to so many rows read an f32 a where it lies, or packed; higher ones only packed:
/// hardware prefetching follows no more rows side by side.
inline constexpr int kInPlaceRows = 8;
/// Widest row group of the few-row form.
inline constexpr int kMaxRowGroup = 8;
/// The most rows where b is transposed. From kSharedRows on, kSharedColumns are processed at a time
/// for all groups of rows: those columns stay in L2, and parts of a, at most kSharedDepth deep, in
/// L1. With a row-major b, a group has too many columns for that: more rows than one group's would
/// stream b again.
inline constexpr int kMaxDotRows = 32, kSharedRows = 9, kSharedColumns = 32, kSharedDepth = 512;
/// The most rows, and the fewest columns, of the few-row form by tiles (AMX), with b along K.
inline constexpr int kMaxRowsOfTiles = 64, kMinColumnsOfTiles = 16;
/// Columns that the few-row form by pairs (AVX512_BF16) computes at a time: its block_n.
inline constexpr int kPairColumns = 48;
/// Does the few-row form of m rows share columns that way?
constexpr bool shares_columns(bool dots, int64_t m) { return dots && m >= kSharedRows; }
/// The rows of whole groups.
constexpr int64_t group_rows(int64_t m) {
  return (m + kMaxRowGroup - 1) / kMaxRowGroup * kMaxRowGroup;
}
/// The most columns of a small matrix (small.hpp), and f32 values of the room that it needs.
inline constexpr int kSmallColumns = 64;
constexpr int64_t small_floats(int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kLanes = 16, kSlack = 64;
  return k * ((n + kLanes - 1) / kLanes * kLanes) + m * ((k + kLanes - 1) / kLanes * kLanes) +
         kSlack;
}
/// Sums that the few-row form keeps per element: of a chain, a run, a span, all spans, and the
/// error of the last.
inline constexpr int kRowPlanes = 5;
/// f32 values that packing may write past a panel's end.
inline constexpr int kPackSlack = 16;

// Weights in panels: an operand b of n columns and k depths that was packed beforehand, in n · k
// elements of its own dtype, the same for all instruction sets.
//
//   kPanelDepth depths of all whole panels (the last block has what is left of k), then the next:
//     a panel after the other; in a panel
//       f32, f16:  [depth][kPanelColumns]
//       bf16:      [chunk][pair][kPanelColumns][2] while there are kPanelChunk depths, then
//                  [depth][kPanelColumns]
//   the last n % kPanelColumns columns, as they were: [column][k]
inline constexpr int kPanelColumns = 32, kPanelDepth = 512, kPanelChunk = 32;
/// Are depths stored in pairs?
constexpr bool has_panel_pairs(DType type) { return type == DType::kBF16; }
/// Columns in whole panels.
constexpr int64_t panel_columns(int64_t n) { return n / kPanelColumns * kPanelColumns; }
/// Depths of the panels that have depth `at`.
constexpr int64_t panel_depth(int64_t k, int64_t at) {
  const int64_t left = k - at / kPanelDepth * kPanelDepth;
  return left < kPanelDepth ? left : kPanelDepth;
}
/// The element where the panel of column j begins, at depth `at`, which is a multiple of
/// kPanelChunk.
constexpr int64_t panel_start(int64_t n, int64_t k, int64_t j, int64_t at) {
  return at / kPanelDepth * kPanelDepth * panel_columns(n) + j * panel_depth(k, at) +
         at % kPanelDepth * kPanelColumns;
}
/// Bytes that tiles fetch panels ahead. bf16 1×4096×4096, one thread of a Zen 5, November 2026, ms:
/// 2 KiB 1.10, 4 KiB 0.85, 8 KiB 0.72, 12 and 16 KiB 0.05 less.
inline constexpr int kPanelAhead = 12288;

/// Packed operands of a block.
struct GemmPanels {
  const float* b;  // starts at the block's j0 and k0
  int64_t part;    // floats from one part of b to the next
  int64_t column;  // bytes of a column of b: from panel to panel, a panel's columns times this
  int64_t lane;    // bytes from column to column in a panel
  DType type;      // of b's elements: f32 (or a unit's terms), 16 bits in panels read in place
  float* a;        // room to pack a
};
/// Where a block's f32 partial sums live between depths: row i of the tile that begins at column j
/// is at data[(i - i0) · ld + (j - j0) · column + part · index]. `padded`: tiles may write past i1
/// and j1 (scratch, not a result). In scratch a tile's rows are contiguous (`ld` is its width), so
/// they lie in one page. If K has more than one span, the total of the earlier spans and its error
/// are `plane` and 2 · `plane` floats further.
struct GemmPartial {
  float* data;
  int64_t ld, column;
  int64_t i0, j0;
  bool padded;
  int64_t plane, part;
};

inline constexpr int kWholeBlock = 0;

/// A level's loops over blocks of a product, for any epilogue.
struct GemmBlocks {
  const GemmTile* tiles;
  int num_tiles;
  /// A packed row or column is padded to a multiple of `depths`, with zeros past K's end, and by
  /// `pad` more that nothing reads (so that panels do not begin a power of two apart); a float of
  /// the panel holds `depths_per_float`.
  int depths, depths_per_float, pad;
  /// Depths of a block that are multiplied at a time, for all rows and a tile's columns (or the
  /// other way around); kWholeBlock: all.
  int step;
  /// Packs columns [j0, j1) × depth [k0, k1) of a part of b into panels of the tile's width.
  void (*pack_b)(const GemmJob&, const CpuGemmConfig&, const GemmBlock&, int part, float* packed_b);
  /// Adds one block's products. The epilogue runs at the last depth.
  void (*multiply)(const GemmJob&, const CpuGemmConfig&, const GemmBlock&, const GemmPanels&,
                   const GemmPartial&);
  /// Loops over weights in panels: kPanelColumns, of which a tile may take a part. 0: packed
  /// columns are as many as the tile's, and the next two are null.
  int panel;
  /// Whether tiles read panels of this type, and a block of this depth, where they lie.
  bool (*reads_panels)(DType, int64_t depth);
  /// Otherwise: the whole panels of a block as `pack_b` would leave them.
  void (*unpack)(const GemmJob&, const GemmBlock&, float* packed_b);
};

/// A level's loops over few rows.
struct GemmRows {
  /// Columns [j0, j1) of a few-row product, whole depth. `rows`: from `pack`; `sums`: parts ·
  /// kRowPlanes · kMaxRowGroup · block_n floats.
  void (*row)(const GemmJob&, const CpuGemmRowConfig&, int64_t j0, int64_t j1, const float* rows,
              float* sums);
  /// Packs a as f32 (units for bf16: as pairs): rows side by side at each depth, or for dot
  /// products one after the other, in parts of their depth if columns are shared; rows past m, up
  /// to a power of two or whole groups, are zero.
  void (*pack)(const GemmJob&, const CpuGemmRowConfig&, float* rows);
};

/// A level's code for one epilogue, as the host code sees it. The loops are those of every operator
/// (cpu/gemm/loops.hpp).
struct GemmCode {
  const GemmBlocks* blocks;
  const GemmRows* rows;  // null: none
  GemmEpilogue epilogue;
};

}  // namespace dlblas
