// Products of groups of rows, each with its own matrix: what host code and kernels share. The
// groups' sizes are on the device; the launch does not depend on them.
// Read next: groups.cuh.
#pragma once

#include "device/gemm/config.hpp"

namespace dlblas {

/// What a group is.
enum class GroupKind : int32_t {
  kRows,    // rows offsets[e] … offsets[e + 1] - 1 of one a, times b[e]
  kMasked,  // the first counts[e] rows of a[e], times b[e]
  kDepth,   // out[e]: the sums over rows offsets[e] … offsets[e + 1] - 1 of aᵀ · b
};

/// What the Problem fixes of the groups.
struct GroupTraits {
  GroupKind kind;
  DType index;   // of offsets or counts: i32 or i64
  bool aligned;  // to their size; with gathered rows, their list too
  /// Of the list of a's rows (kRows only): i32 or i64. kAbsent: a's rows are those of the groups.
  DType rows = DType::kAbsent;

  constexpr bool gathers() const { return rows != DType::kAbsent; }
};

/// Shared memory for the places of a tile's rows: a table of offsets, if a list says where they
/// are.
constexpr int32_t gathered_bytes(const GroupTraits& groups, int32_t block_m) {
  return groups.gathers() ? block_m * 8 : 0;
}

/// One call. Strides in elements.
struct GroupCall {
  const void* sizes;  // offsets [groups + 1] or counts [groups]
  int64_t sizes_stride;
  int64_t most;  // that an offset or a count may be: others count as the nearest
  int32_t groups;
  int32_t unused;
  int64_t a_group, b_group, out_group;  // from a group's matrix to the next one's
  const void* rows;                     // gathered: the row of a for each of the groups' rows
  int64_t rows_stride;
  int64_t sources;  // rows of a; an element of `rows` outside 0 … sources - 1 names none
};

/// The parameters of a kernel: a product of the first group, and the groups.
template <typename Epilogue>
struct GroupedParams {
  GemmParams<Epilogue> product;
  GroupCall groups;
};

/// Upper bound of the tiles of rows in groups that have `rows` rows in total: each group ends in at
/// most one partial tile.
constexpr int64_t most_row_tiles(int64_t rows, int64_t groups, int64_t block) {
  const int64_t with_rows = groups < rows ? groups : rows;
  return (rows + with_rows * (block - 1)) / block;
}

}  // namespace dlblas
