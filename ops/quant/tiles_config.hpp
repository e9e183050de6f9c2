// Plain structs shared by the host, the CPU's instruction-set objects and the CUDA kernels of
// scales over tiles. Read next: ops/quant/tiles.cuh, tiles_simd.hpp.
#pragma once

#include "device/dtype.hpp"
#include "device/view.hpp"

namespace dlblas::quant {

/// What one scale covers: all of x, one column, or 128 rows by 128 columns.
enum class QuantTile : int32_t { kTensor, kChannel, kBlock };
inline constexpr int kQuantBlock = 128;

struct QuantTilesTraits {
  QuantTile tile;
  DType type, q_type;
  int32_t access;  // elements that a thread loads at a time
  bool aligned;    // elements are aligned to their size
};

inline constexpr int kQuantThreads = 256;
/// Threads along a row of a tile, one access each.
constexpr int quant_lanes(const QuantTilesTraits& s) {
  return s.tile == QuantTile::kBlock                     ? kQuantBlock / s.access
         : s.access > 1 && s.tile == QuantTile::kChannel ? 8
                                                         : 32;
}
/// The most blocks of the kernel that finds a tensor's largest value: each stores one maximum.
inline constexpr int kQuantParts = 1024;
/// Rows per thread in a tile of a tensor.
inline constexpr int kQuantRows = 4;

/// One call. A tensor without gaps is taken as rows of a tile's width, as many as there are; the
/// last one ends at `total`.
struct QuantTilesParams {
  StridedView x, q, scale;
  int64_t x_stride, q_stride, scale_stride;  // of the last dimension
  int64_t rows, width, total;
  uint32_t* parts;  // of a tensor: the bits of the largest |x| of each block
  int32_t num_parts;
  float largest;   // of q's type
  int64_t powers;  // not 0: scales are powers of 2
};
static_assert(sizeof(QuantTilesParams) == 3 * 144 + 9 * 8, "host and device read the same bytes");

// ---- tiles that are read once: tiles_held.cuh ----

/// Threads along a row of a tile of 128 columns.
constexpr int quant_held_lanes(const QuantTilesTraits& s) { return kQuantBlock / s.access; }

/// cuda_registers: one tile per block.
struct QuantRegistersConfig {
  int32_t threads = 256;
  int32_t blocks = 4;  // of a multiprocessor
};

/// cuda_grid: tiles of 128 columns in a ring buffer in each block's shared memory.
struct QuantGridConfig {
  int32_t threads = 256;
  int32_t loads = 8;   // accesses of a thread and tile
  int32_t stages = 3;  // tiles of a ring
  int32_t blocks = 2;  // of a multiprocessor
};
constexpr int quant_grid_rows(const QuantTilesTraits& s, const QuantGridConfig& c) {
  return c.threads / quant_held_lanes(s) * c.loads;
}

/// One call. A tensor without gaps is taken as rows of 128 elements; the last one ends at `total`.
struct QuantHeldParams {
  const void* x;
  void *q, *scale;
  int64_t x_row, q_row, scale_row, scale_column;
  int64_t rows, width, total;
  uint32_t *maxima, *arrived;   // of a grid's columns; of each 128 columns
  int32_t down, across, tiles;  // tiles along a column and along a row
  float largest;                // of q's type
  int64_t powers;               // not 0: scales are powers of 2
};
static_assert(sizeof(QuantHeldParams) == 15 * 8, "host and device read the same bytes");

/// What a CPU does with a row, or a part of one; elements are contiguous.
struct QuantTilesPasses {
  /// most[i] = max(most[i], |row[i]|); NaN is the largest.
  void (*maxima)(DType type, const void* row, int64_t count, float* most);
  /// to[i] = row[i] · factors[i] in q's type.
  void (*codes)(DType type, DType q_type, const void* row, int64_t count, const float* factors,
                void* to);
};

}  // namespace dlblas::quant

// One entry per instruction set, each in its own object file.
namespace dlblas::baseline {
quant::QuantTilesPasses quant_tiles_passes();
}
namespace dlblas::avx2 {
quant::QuantTilesPasses quant_tiles_passes();
}
namespace dlblas::avx512 {
quant::QuantTilesPasses quant_tiles_passes();
}
