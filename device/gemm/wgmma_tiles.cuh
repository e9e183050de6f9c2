// The tile schedule of the WGMMA form: persistent blocks walk the tiles in groups of rows, so that
// the tiles in flight share rows of A and columns of B in L2. All blocks of a cluster walk
// together. In: a call. Out: tiles, and each block's part of K. Read next: wgmma_ring.cuh.
#pragma once

#include "device/cluster.cuh"
#include "device/gemm/wgmma_config.hpp"

namespace dlblas {

/// The corner of a tile in D.
struct GemmCorner {
  int32_t row, column;
};

/// kColumns: columns of D in a tile.
template <GemmWgmmaConfig C, int kColumns>
class GemmTiles {
 public:
  uint32_t rank;  // of this block in its cluster

  __device__ __forceinline__ explicit GemmTiles(const GemmWgmmaCall& call)
      : rank(C.cluster > 1 ? cluster_rank() : 0),
        call_(call),
        unit_(blockIdx.x / C.cluster),
        step_(gridDim.x / C.cluster) {}

  __device__ __forceinline__ bool more() const {
    return unit_ < static_cast<uint32_t>(call_.units_m) * static_cast<uint32_t>(call_.units_n);
  }
  __device__ __forceinline__ void advance(uint32_t times = 1) { unit_ += step_ * times; }
  __device__ __forceinline__ GemmCorner corner() const {
    const uint32_t group = static_cast<uint32_t>(call_.group);
    const uint32_t in_group = group * static_cast<uint32_t>(call_.units_n);
    const uint32_t first = unit_ / in_group * group, rest = unit_ % in_group;
    const uint32_t left = static_cast<uint32_t>(call_.units_m) - first;
    const uint32_t rows = left < group ? left : group;
    uint32_t m = first + rest % rows, n = rest / rows;
    if constexpr (C.share == GemmShare::kB) m = m * C.cluster + rank;
    if constexpr (C.share == GemmShare::kA) n = n * C.cluster + rank;
    return {static_cast<int32_t>(m * C.block_m), static_cast<int32_t>(n * kColumns)};
  }

 private:
  const GemmWgmmaCall& call_;
  uint32_t unit_, step_;
};

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

}  // namespace dlblas
