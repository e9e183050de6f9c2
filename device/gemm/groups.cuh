// Finds the group that a tile belongs to: each warp adds up the groups' tile counts until it
// reaches the tile. No atomics, no list in memory, nothing that the host must know.
// In: a GroupCall, the number of a tile. Out: its group and its place there.
// Flow: [launch], of ops/gemm/grouped/. Read next: groups_config.hpp.
#pragma once

#include "device/gemm/groups_config.hpp"
#include "device/gemm/source_rows.cuh"
#include "device/vec.cuh"

namespace dlblas {

/// Rows [begin, begin + count) of group `group`; group -1 means none.
struct GroupRange {
  int32_t group;
  int64_t begin, count;
};

/// Integer `offset` of a list of i32 or i64.
template <DType kType, bool kAligned>
__device__ __forceinline__ int64_t load_integer(const void* list, int64_t offset) {
  constexpr int kAlign = kAligned ? 4 : 1;
  if constexpr (kType == DType::kI64) {
    const uint32_t low = load_vec<DType::kI32, 1, kAlign>(list, 2 * offset).words[0];
    const uint32_t high = load_vec<DType::kI32, 1, kAlign>(list, 2 * offset + 1).words[0];
    return static_cast<int64_t>(uint64_t{high} << 32 | low);
  } else {
    return static_cast<int32_t>(load_vec<DType::kI32, 1, kAlign>(list, offset).words[0]);
  }
}

/// Offset or count `at`, clamped to [0, most].
template <GroupTraits G>
__device__ __forceinline__ int64_t group_size(const GroupCall& p, int64_t at) {
  const int64_t v = load_integer<G.index, G.aligned>(p.sizes, at * p.sizes_stride);
  return v < 0 ? 0 : v > p.most ? p.most : v;
}

template <GroupTraits G>
__device__ __forceinline__ GroupRange group_range(const GroupCall& p, int32_t group) {
  if constexpr (G.kind == GroupKind::kMasked) {
    return {group, 0, group_size<G>(p, group)};
  } else {
    const int64_t begin = group_size<G>(p, group), end = group_size<G>(p, group + 1);
    return {group, begin, end > begin ? end - begin : 0};
  }
}

/// A tile's group, and its place among that group's tiles.
struct GroupTile {
  GroupRange range;
  uint32_t place;  // among the group's tiles
  uint32_t rows;   // tiles of rows that the group has
};

/// Finds tile `tile` of all, in the order of groups; a group with t tiles of rows has t · columns
/// tiles. All lanes of the warp call it and get the same result.
template <GroupTraits G, int kBlock>
__device__ __forceinline__ GroupTile find_tile(const GroupCall& p, uint32_t tile,
                                               uint32_t columns) {
  constexpr int kEach = 4;  // groups of a lane
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint32_t wanted = tile / columns;
  uint32_t before = 0;
  for (int32_t base = 0; base < p.groups; base += 32 * kEach) {
    GroupRange mine[kEach];
    uint32_t tiles[kEach], own = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int32_t group = base + lane * kEach + i;
      mine[i] = {-1, 0, 0};
      if (group < p.groups) mine[i] = group_range<G>(p, group);
      tiles[i] = static_cast<uint32_t>((mine[i].count + kBlock - 1) / kBlock);
      own += tiles[i];
    }
    uint32_t upto = own;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const uint32_t other = __shfl_up_sync(~0u, upto, step);
      if (lane >= step) upto += other;
    }
    uint32_t first = before + upto - own;
    const bool has = wanted >= first && wanted < before + upto;
    const uint32_t lanes = __ballot_sync(~0u, has);
    if (lanes == 0) {
      before += __shfl_sync(~0u, upto, 31);
      continue;
    }
    GroupRange found = mine[0];
    uint32_t rows = tiles[0];
#pragma unroll
    for (int i = 1; i < kEach; ++i) {
      if (wanted < first + rows) continue;
      first += rows;
      found = mine[i], rows = tiles[i];
    }
    const int from = __ffs(static_cast<int>(lanes)) - 1;
    GroupTile at;
    at.range.group = __shfl_sync(~0u, found.group, from);
    at.range.begin = __shfl_sync(~0u, found.begin, from);
    at.range.count = __shfl_sync(~0u, found.count, from);
    at.rows = __shfl_sync(~0u, rows, from);
    at.place = tile - __shfl_sync(~0u, first, from) * columns;
    return at;
  }
  return {{-1, 0, 0}, 0, 0};
}

/// A block's tile within its group's product, if it has one.
struct GroupEntered {
  bool there;
  uint32_t m, n;  // tile of rows, tile of columns
  GroupRange range;
};

/// Turns `p`, the first group's product, into that of the group to which `tile` belongs.
template <GroupTraits G, int kBlockM, int kBlockN, int kBand, typename Epilogue>
__device__ __forceinline__ GroupEntered enter_group(GemmParams<Epilogue>& p,
                                                    const GroupCall& groups, DType type,
                                                    uint32_t tile) {
  const auto columns = static_cast<uint32_t>((p.gemm.n + kBlockN - 1) / kBlockN);
  GroupTile at;
  if constexpr (G.kind == GroupKind::kDepth) {
    const auto rows = static_cast<uint32_t>((p.gemm.m + kBlockM - 1) / kBlockM);
    const uint32_t group = tile / (rows * columns);
    at = {group_range<G>(groups, static_cast<int32_t>(group)), tile - group * rows * columns, rows};
  } else {
    at = find_tile<G, kBlockM>(groups, tile, columns);
    if (at.range.group < 0) return {false, 0, 0, at.range};
  }
  const int64_t size = size_of(type), group = at.range.group, begin = at.range.begin;
  int64_t a = group * groups.a_group, b = group * groups.b_group, out = group * groups.out_group;
  if constexpr (G.kind == GroupKind::kRows) {
    if constexpr (!G.gathers()) a += begin * p.gemm.a_row;
    out += begin * p.epilogue.out.row;
    p.gemm.m = at.range.count;
  } else if constexpr (G.kind == GroupKind::kMasked) {
    p.gemm.m = at.range.count;
  } else {
    a += begin * p.gemm.a_col, b += begin * p.gemm.b_row;
    p.gemm.k = at.range.count;
  }
  p.gemm.a = static_cast<const char*>(p.gemm.a) + a * size;
  p.gemm.b[0] = static_cast<const char*>(p.gemm.b[0]) + b * size;
  p.epilogue.out.data = static_cast<char*>(p.epilogue.out.data) + out * Epilogue::kOutBytes;
  // Bands of rows, columns in the outer loop: concurrent tiles share both matrices in L2.
  const uint32_t in_band = kBand * columns, first = at.place / in_band * kBand;
  const uint32_t rest = at.place % in_band, left = at.rows - first;
  const uint32_t height = left < kBand ? left : kBand;
  return {true, first + rest % height, rest / height, at.range};
}

/// The rows of a for a tile of kBlock rows of `group`, of which the first is `first`. A list is
/// read once per tile, into `table` (kBlock offsets in shared memory), and a barrier follows.
template <GroupTraits G, int kBlock>
__device__ __forceinline__ auto source_rows(int64_t* table, const GroupCall& p,
                                            const GroupRange& group, int64_t first, int64_t a_row) {
  if constexpr (!G.gathers()) {
    return RowsInOrder();
  } else {
    static_assert(G.kind == GroupKind::kRows);
    for (int r = static_cast<int>(threadIdx.x); r < kBlock; r += static_cast<int>(blockDim.x)) {
      int64_t row = -1;
      if (first + r < group.count)
        row = load_integer<G.rows, G.aligned>(p.rows, (group.begin + first + r) * p.rows_stride);
      table[r] = row >= 0 && row < p.sources ? row * a_row : kNoRow;
    }
    __syncthreads();
    return GatheredRows{table};
  }
}

}  // namespace dlblas
