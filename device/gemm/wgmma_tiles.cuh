// The tile schedule of the WGMMA form: persistent blocks walk the tiles in groups of rows, so that
// the tiles in flight share rows of A and columns of B in L2. All blocks of a cluster walk
// together. In: a call. Out: tiles, and each block's part of K. Read next: stream_config.hpp (the
// schedule of stream-K), wgmma_ring.cuh.
#pragma once

#include "device/cluster.cuh"
#include "device/gemm/wgmma_config.hpp"

namespace dlblas {

/// The corner of a tile in D.
struct GemmCorner {
  int32_t row, column;
};

/// The tile of a unit that is this block's. kColumns: columns of D in a tile.
template <GemmWgmmaConfig C, int kColumns>
__device__ __forceinline__ GemmCorner gemm_corner(const GemmWgmmaCall& call, uint32_t unit,
                                                  uint32_t rank) {
  const uint32_t group = static_cast<uint32_t>(call.group);
  const uint32_t in_group = group * static_cast<uint32_t>(call.units_n);
  const uint32_t first = unit / in_group * group, rest = unit % in_group;
  const uint32_t left = static_cast<uint32_t>(call.units_m) - first;
  const uint32_t rows = left < group ? left : group;
  uint32_t m = first + rest % rows, n = rest / rows;
  if constexpr (C.share == GemmShare::kB) m = m * C.cluster + rank;
  if constexpr (C.share == GemmShare::kA) n = n * C.cluster + rank;
  return {static_cast<int32_t>(m * C.block_m), static_cast<int32_t>(n * kColumns)};
}

/// The stages of K that this block takes: all, or its part of a cluster's; at least one.
template <GemmWgmmaConfig C>
struct GemmDepth {
  int32_t first, count;
  __device__ __forceinline__ explicit GemmDepth(const GemmWgmmaCall& call) {
    const int32_t all = (call.k + C.block_k - 1) / C.block_k;
    first = 0, count = all;
    if constexpr (C.share == GemmShare::kK) {
      const auto rank = static_cast<int32_t>(cluster_rank());
      const int32_t each = all / C.cluster, more = all % C.cluster;
      first = each * rank + (rank < more ? rank : more);
      count = each + (rank < more ? 1 : 0);
    }
  }
};

/// What a block computes next: stages [first, first + count) of a tile.
struct GemmPart {
  GemmCorner tile;
  int32_t first, count;
  int32_t givers;  // workers that add to it: GemmStreamWalk::givers
};

template <GemmWgmmaConfig C, int kColumns>
class GemmTiles {
 public:
  uint32_t rank;  // of this block in its cluster

  __device__ __forceinline__ explicit GemmTiles(const GemmWgmmaCall& call)
      : rank(C.cluster > 1 ? cluster_rank() : 0),
        call_(call),
        depth_(call),
        unit_(blockIdx.x / C.cluster),
        step_(gridDim.x / C.cluster) {}

  __device__ __forceinline__ bool more() const {
    return unit_ < static_cast<uint32_t>(call_.units_m) * static_cast<uint32_t>(call_.units_n);
  }
  __device__ __forceinline__ void advance(uint32_t times = 1) { unit_ += step_ * times; }
  __device__ __forceinline__ GemmPart part() const {
    return {gemm_corner<C, kColumns>(call_, unit_, rank), depth_.first, depth_.count, 0};
  }
  /// Stages of the next part.
  __device__ __forceinline__ int32_t next_count() const { return depth_.count; }

 private:
  const GemmWgmmaCall& call_;
  GemmDepth<C> depth_;
  uint32_t unit_, step_;
};

/// The same for stream-K.
template <GemmWgmmaConfig C, int kColumns>
requires(C.stream) class GemmTiles<C, kColumns> {
 public:
  uint32_t rank;

  __device__ __forceinline__ explicit GemmTiles(const GemmWgmmaCall& call)
      : rank(C.cluster > 1 ? cluster_rank() : 0), call_(call) {}

  __device__ __forceinline__ bool more() const { return index_ < walk().size(); }
  __device__ __forceinline__ void advance(int32_t times = 1) { index_ += times; }
  __device__ __forceinline__ GemmPart part() const {
    const GemmStreamWalk all = walk();
    const GemmSegment s = all[index_];
    return {gemm_corner<C, kColumns>(call_, static_cast<uint32_t>(s.unit), rank), s.first, s.count,
            all.givers(s)};
  }
  /// Stages of the next part; 0 if there is none.
  __device__ __forceinline__ int32_t next_count() const {
    const GemmStreamWalk all = walk();
    return index_ + 1 < all.size() ? all[index_ + 1].count : 0;
  }

 private:
  const GemmWgmmaCall& call_;
  int32_t index_ = 0;

  /// Reads the block's index again: kept over the main loop, what follows from it would cost
  /// registers there.
  __device__ __forceinline__ GemmStreamWalk walk() const {
    int32_t block;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
    return {call_.stream.plan, block / C.cluster, static_cast<int32_t>(gridDim.x) / C.cluster};
  }
};

}  // namespace dlblas
