// The copies of a grouped product whose rows a list names, on Hopper. The copy engine reads boxes
// of adjacent rows, so all threads of the copying warpgroup copy A, 16 bytes each time, to where
// the engine would put them (128-byte swizzle); one of them also starts the engine on B.
// In: a call whose list is on the device. Out: stages in the ring, as the multiplying warpgroups
// read them: full[s] counts kCopyingArrivals and the bytes of B.
// cp.async writes as threads do, WGMMA reads as the copy engine does: each multiplying thread
// orders the two once it has seen a stage arrive (consume_groups).
// Flow: [launch], of ops/gemm/grouped/grouped_wgmma_cuda.cpp.  Read next: wgmma_groups.cuh.
#pragma once

#include "device/cp_async.cuh"
#include "device/gemm/wgmma_groups.cuh"

namespace dlblas {

/// The rows of A that one thread copies: every 16th of a tile, of each 128 bytes the same 16. Fewer
/// instructions per copy (5 for 11) made wide tiles 7 % slower on an H200, narrow ones no faster.
template <GroupTraits G, GemmWgmmaConfig C>
class GatheredTile {
 public:
  __device__ __forceinline__ explicit GatheredTile(const GroupedWgmmaCall& call)
      : a_(static_cast<const char*>(call.product.operands[kGroupGatheredA].data) + chunk() * 16),
        pitch_(call.product.operands[kGroupGatheredA].stride * 2),
        to_(swizzle_128(first() * 128 + chunk() * 16)) {}

  /// Reads the list. Rows beyond the group, and those that name none of A's, are zeros.
  __device__ __forceinline__ void find(const GroupCall& p, const GroupTiles<C>& tiles) {
    there_ = 0;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int32_t r = tiles.row + first() + i * kStep;
      int64_t row = -1;
      if (r < tiles.entry.count)
        row = load_integer<G.rows, G.aligned>(p.rows,
                                              (int64_t{tiles.entry.begin} + r) * p.rows_stride);
      const bool there = row >= 0 && row < p.sources;
      rows_[i] = there ? static_cast<uint32_t>(row) : 0;
      there_ |= static_cast<uint32_t>(there) << i;
    }
  }

  /// Copies terms k … k + block_k - 1 of `terms` to a stage; what is beyond becomes zero.
  __device__ __forceinline__ void copy(uint32_t stage, int32_t k, int32_t terms) const {
#pragma unroll
    for (int s = 0; s < C.steps(); ++s) {
      const int32_t left = (terms - k - s * 64) * 2 - chunk() * 16;
      const int32_t bytes = left < 0 ? 0 : left > 16 ? 16 : left;
      const char* const from = a_ + int64_t{k + s * 64} * 2;
      const uint32_t to = stage + s * C.block_m * 128 + to_;
#pragma unroll
      for (int i = 0; i < kRows; ++i)
        cp_async(to + i * kStep * 128, from + rows_[i] * pitch_, there_ >> i & 1 ? bytes : 0);
    }
  }

 private:
  static constexpr int kStep = 16, kRows = C.block_m / kStep;
  const char* a_;
  int64_t pitch_;  // bytes
  uint32_t to_, there_ = 0;
  uint32_t rows_[kRows];

  __device__ static __forceinline__ int32_t chunk() {
    return static_cast<int32_t>(threadIdx.x) % 8;
  }
  __device__ static __forceinline__ int32_t first() {
    return static_cast<int32_t>(threadIdx.x) / 8;
  }
};

/// Everything that the copying warpgroup does.
template <GemmTraits S, GroupTraits G, GemmWgmmaConfig C>
__device__ __forceinline__ void produce_gathered(const GroupedWgmmaCall& call,
                                                 const GemmRing<S, C>& ring,
                                                 const GroupEntry* table) {
  constexpr uint32_t kBytesOfB = C.b_bytes(S.b_by_depth);
  GatheredTile<G, C> rows(call);
  RingPlace<C.stages> at;
#pragma unroll 1
  for (GroupTiles<C> tiles(call.groups, table, call.product.n); tiles.more(); tiles.advance()) {
    rows.find(call.groups, tiles);
    const int32_t count = group_stages<G, C>(call, tiles.entry);
#pragma unroll 1
    for (int32_t i = 0; i < count; ++i, at.advance()) {
      unsigned char* const a = ring.tiles + at.stage * GemmRing<S, C>::kStageBytes;
      Mbarrier& full = ring.full[at.stage];
      ring.empty[at.stage].wait(at.parity ^ 1);
      if (threadIdx.x == 0) {
        full.arrive_expect_tx(kBytesOfB);
        load_of_group<C, S.b_by_depth>(a + C.a_bytes(), call.product.b[0], full, tiles.column,
                                       i * C.block_k, tiles.group);
      }
      rows.copy(shared_address(a), i * C.block_k, call.product.k);
      cp_async_arrive(full);
    }
  }
  cp_async_wait<0>();
}

}  // namespace dlblas
