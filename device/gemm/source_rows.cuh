// Where the rows of a tile of a lie in memory: in order, or gathered by a list. A mainloop takes
// one of these; rows in order cost it nothing.
// Read next: device/mma_tile.cuh and device/gemm/fma_mainloop.cuh (which copy rows), groups.cuh
// (which reads the list).
#pragma once

#include "device/types.hpp"

namespace dlblas {

/// Row r of a tile is r rows behind the tile's first row.
struct RowsInOrder {
  static constexpr bool kGathered = false;
};

/// The offset of a row that is nowhere: zeros take its place.
inline constexpr int64_t kNoRow = -0x7fffffffffffffff - 1;

/// Row r of a tile begins `offsets[r]` elements behind a's first element. The table covers the tile
/// and is in shared memory: sums leave a thread few registers for the offsets of its rows.
struct GatheredRows {
  static constexpr bool kGathered = true;
  const int64_t* offsets;
};

}  // namespace dlblas
