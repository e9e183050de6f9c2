// Plain structs shared by the host and the CUDA kernels of sorts by expert.
// An item is a choice of a token: item i is choice i % inner of token i / inner. Items are divided
// into chunks, and one warp counts a chunk's experts; counts are added in chunk order, so an item's
// place is that of a stable sort, whatever ran first.
// Read next: ops/moe/sort/sort.cuh (device), ops/moe/sort/sort_cuda.hpp (host).
#pragma once

#include "device/types.hpp"

namespace dlblas::moe {

struct MoeSortTraits {
  DType ids;     // i32 or i64
  bool aligned;  // tables are aligned to 4 bytes
};
inline constexpr int kMoeChunk = 256;    // items of a warp
inline constexpr int kMoeThreads = 256;  // of a block
inline constexpr int kMoeWarps = kMoeThreads / 32;
inline constexpr int kMoeScanThreads = 1024;
/// The most experts that a warp counts in shared memory; if there are more, it counts in the table
/// itself.
inline constexpr int kMoeSharedExperts = 1024;

/// One sort. Items whose expert is outside [0, experts) are in no group.
struct MoeSortParams {
  const void* ids;  // [items / inner, inner]
  int64_t outer_stride, inner_stride;
  int32_t items, inner, experts, chunks;
  int32_t block;           // a group begins at a multiple of it
  int32_t segment_chunks;  // of `segment` items: no chunk reaches from one segment into the next
  int32_t segment;
  int32_t unused;
  int32_t* counts;  // [experts, chunks]: items of a chunk, then of those before it
  int32_t* totals;  // [experts]
  int32_t* bases;   // [experts + 1]: where an expert's group begins
};
static_assert(sizeof(MoeSortParams) == 80, "host and device read the same bytes");

/// A strided column of a tensor; those that sorts write are i32.
struct MoeColumn {
  void* data;
  int64_t stride;
};

}  // namespace dlblas::moe
