// Takes a warpgroup's accumulators through a program to memory: strip by strip into a staging
// buffer, from which the copy engine stores while the next strip is computed.
// In: 64 rows of sums in registers. Out: D, rounded once; nothing outside D is written.
// Rows of the result are multiples of 16 bytes, because the copy engine clips edges there.
// Read next: wgmma_mainloop.cuh.
#pragma once

#include "device/gemm/wgmma_program.cuh"
#include "device/gemm/wgmma_tiles.cuh"
#include "device/tma.cuh"

namespace dlblas {

/// A barrier of one multiplying warpgroup. Named barriers: 0 for the block, 1 to 3 for these; two
/// warpgroups that take turns use 3 and 4.
__device__ __forceinline__ void gemm_warpgroup_sync(int32_t group) {
  asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
}

/// Stores 8 × 8 tiles of 16-bit elements to shared memory; `to` is this lane's row, or its column
/// if kTransposed.
template <bool kTransposed>
__device__ __forceinline__ void store_tiles(uint32_t to, const uint32_t (&w)[4]) {
  if constexpr (kTransposed)
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                 "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
                 : "memory");
  else
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                 "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
                 : "memory");
}
template <bool kTransposed>
__device__ __forceinline__ void store_tiles(uint32_t to, const uint32_t (&w)[2]) {
  if constexpr (kTransposed)
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(to),
                 "r"(w[0]), "r"(w[1])
                 : "memory");
  else
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(to), "r"(w[0]),
                 "r"(w[1])
                 : "memory");
}

template <class P, GemmWgmmaConfig C>
class GemmEpilogue {
 public:
  static constexpr int kColumns = C.block_n / P::kParts;
  static constexpr int kBytes = size_of(P::kOut);  // of an element
  static_assert(kBytes == 2 || !C.swapped);
  /// A round: the columns of a staging buffer. A strip: what a program sees, one or more rounds.
  static constexpr int kRound = C.swapped ? 64 : 128 / kBytes;
  static constexpr int kStrip = P::kStripColumns > kRound ? P::kStripColumns : kRound;
  static_assert(P::kStripColumns <= kRound || kColumns % P::kStripColumns == 0);
  /// The extent of one store: 64 rows × kSegment columns; swapped, kSegment rows × 64.
  static constexpr int kSegment = P::kFold > 0 ? kGemmFoldPiece : gemm_segment(kColumns, kRound);
  static_assert(P::kFold == 0 || (!C.swapped && kStrip == 64 && kColumns % 64 == 0));
  static constexpr int kSegmentBytes = C.swapped ? 128 : kSegment * kBytes;
  static constexpr uint32_t kSwizzle = kSegmentBytes - 16;  // bits of the place that trade
  static constexpr int kStrips = (kColumns + kStrip - 1) / kStrip;
  /// Where a cluster shares K: the rank that stores the strip with the tile's 8 columns `block`.
  __device__ static constexpr uint32_t owner_of(int block) {
    return block % (kColumns / 8) * 8 / kStrip % C.cluster;
  }
  template <int kFirst>
  static constexpr int blocks() {
    return (kColumns - kFirst < kStrip ? kColumns - kFirst : kStrip) / 8;
  }
  template <int kFirst>
  using At = GemmFragment<C.swapped, blocks<kFirst>(), P::kFold>;
  using FirstAsked = typename P::template Asked<At<0>>;
  /// Operands are requested early where the sums leave registers for them: the first strip's before
  /// the main loop, the next strip's before the current one is computed. In ping-pong the other
  /// warpgroup's main loop hides late requests.
  static constexpr int kAskedWords = sizeof(FirstAsked) == 1 ? 0 : sizeof(FirstAsked) / 4;
  static constexpr bool kEarly = !C.pingpong && C.sums() + C.row_blocks() * kAskedWords <= 128;
  static constexpr bool kAhead = !C.pingpong && C.sums() + 2 * kAskedWords <= 160;

  __device__ __forceinline__ GemmEpilogue(const GemmWgmmaCall& call, const unsigned char* staging,
                                          int32_t group, uint32_t rank)
      : call_(call),
        staging_(shared_address(staging)),
        from_(staging),
        group_(group),
        rank_(rank) {}

  __device__ __forceinline__ void ask(FirstAsked& asked, GemmCorner tile) const {
    if constexpr (kEarly) P::ask(asked, place<0>(tile));
  }
  /// `tile`: the corner of this warpgroup's 64 rows.
  template <int kAll>
  __device__ __forceinline__ void run(float (&d)[kAll], FirstAsked& asked, GemmCorner tile) {
    if constexpr (!kEarly) P::ask(asked, place<0>(tile));
    strip<0>(d, asked, tile);
  }
  /// Call before the shared memory is released.
  __device__ __forceinline__ void finish() const {
    if (leader()) tma_store_wait_read<0>();
  }

 private:
  const GemmWgmmaCall& call_;
  uint32_t staging_;
  const unsigned char* from_;
  int32_t group_;
  uint32_t rank_;  // in the cluster
  uint32_t turn_ = 0;

  __device__ static __forceinline__ bool leader() { return threadIdx.x % 128 == 0; }
  __device__ __forceinline__ Tile3 in_stack(int32_t row, int32_t column) const {
    const int32_t matrix = row / call_.rows_each;
    return {column, row - matrix * call_.rows_each, matrix};
  }

  /// Reads the thread index again: kept over the main loop, it would cost a register there.
  template <int kFirst>
  __device__ __forceinline__ At<kFirst> place(GemmCorner tile) const {
    int32_t thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    thread %= 128;
    return {call_, tile.row + thread / 32 * 16 + thread % 32 / 4,
            gemm_unfolded<P::kFold>(tile.column + kFirst) + thread % 4 * 2};
  }

  template <int kFirst, int kAll, class Asked>
  __device__ __forceinline__ void strip(float (&d)[kAll], const Asked& asked, GemmCorner tile) {
    constexpr bool kMore = kFirst + kStrip < kColumns;
    constexpr int kNext = kMore ? kFirst + kStrip : 0;
    typename P::template Asked<At<kNext>> next;
    if constexpr (kMore && kAhead) P::ask(next, place<kNext>(tile));
    if (C.share != GemmShare::kK || owner_of(kFirst / 8) == rank_) {
      const GemmStrip<kAll, kFirst / 8, kColumns / 8, blocks<kFirst>()> s{d};
      apply_program<P>(s, asked, place<kFirst>(tile));
      rounds<kFirst, 0>(s, tile);
    }
    if constexpr (kMore && !kAhead) P::ask(next, place<kNext>(tile));
    if constexpr (kMore) strip<kNext>(d, next, tile);
  }

  /// Stores a strip's results round by round, from block kBlock on. With two buffers, one is free
  /// once the store before the last has read it; the last may still be reading the other.
  template <int kFirst, int kBlock, class S>
  __device__ __forceinline__ void rounds(const S& s, GemmCorner tile) {
    constexpr int kLeft = S::kBlocks - kBlock;
    constexpr int kBlocks = kLeft * 8 < kRound ? kLeft : kRound / 8;
#pragma unroll
    for (int part = 0; part < P::kStores; ++part) {
      const uint32_t buffer = turn_ * kGemmRoundBytes;
      if (leader()) tma_store_wait_read<C.rounds() - 1>();
      gemm_warpgroup_sync(group_);
      write<kBlock, kBlocks>(s, part, staging_ + buffer);
      fence_async_shared();
      gemm_warpgroup_sync(group_);
      if (leader()) {
#pragma unroll
        for (int i = 0; i < kBlocks * 8 / kSegment; ++i) {
          const unsigned char* from =
              from_ + buffer + i * (C.swapped ? kSegment : 64) * kSegmentBytes;
          const int32_t column =
              gemm_unfolded<P::kFold>(tile.column + kFirst + kBlock * 8 + i * kSegment);
          if constexpr (C.batched)
            tma_store(call_.out[part], from, in_stack(tile.row, column));
          else
            tma_store(call_.out[part], from,
                      C.swapped ? Tile2{tile.row, column} : Tile2{column, tile.row});
        }
        tma_store_commit();
      }
      turn_ = (turn_ + 1) % C.rounds();
    }
    if constexpr (kBlock + kBlocks < S::kBlocks) rounds<kFirst, kBlock + kBlocks>(s, tile);
  }

  /// Position of `byte` of a row within a round.
  __device__ static __forceinline__ uint32_t offset(int32_t row, int32_t byte) {
    const uint32_t segment = byte / kSegmentBytes;
    const uint32_t in = row * kSegmentBytes + byte % kSegmentBytes;
    return segment * 64 * kSegmentBytes + (in ^ ((in >> 3) & kSwizzle));
  }

  template <int kBlock, int kBlocks, class S>
  __device__ __forceinline__ void write(const S& s, int part, uint32_t to) const {
    const auto lane = static_cast<int32_t>(threadIdx.x) % 32,
               warp = static_cast<int32_t>(threadIdx.x) / 32 % 4;
    if constexpr (kBytes == 2) {
      const auto pack = [&](int h, int j) {
        return pack_pair<P::kOut>(s(part, h, kBlock + j, 0), s(part, h, kBlock + j, 1));
      };
      // Tile t of a store is h = t mod 2 of block j + t / 2; lane 8·t + i addresses its row i.
      const int32_t h = lane / 8 % 2, i = lane % 8;
      const auto place = [&](int32_t j) {
        return to + (C.swapped ? offset(j * 8 + i, (warp * 16 + h * 8) * 2)
                               : offset(warp * 16 + h * 8 + i, j * 16));
      };
#pragma unroll
      for (int j = 0; j + 1 < kBlocks; j += 2)
        store_tiles<C.swapped>(place(j + lane / 16),
                               {pack(0, j), pack(1, j), pack(0, j + 1), pack(1, j + 1)});
      if constexpr (kBlocks % 2 == 1)
        store_tiles<C.swapped>(place(kBlocks - 1), {pack(0, kBlocks - 1), pack(1, kBlocks - 1)});
    } else if constexpr (kBytes == 1) {
#pragma unroll
      for (int j = 0; j < kBlocks; ++j)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const uint32_t codes = pack_f8<P::kOut>(s(part, h, kBlock + j, 0)) |
                                 pack_f8<P::kOut>(s(part, h, kBlock + j, 1)) << 8;
          asm volatile("st.shared.u16 [%0], %1;" ::"r"(
                           to + offset(warp * 16 + lane / 4 + 8 * h, j * 8 + lane % 4 * 2)),
                       "h"(static_cast<uint16_t>(codes))
                       : "memory");
        }
    } else {
#pragma unroll
      for (int j = 0; j < kBlocks; ++j)
#pragma unroll
        for (int h = 0; h < 2; ++h)
          asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(
                           to + offset(warp * 16 + lane / 4 + 8 * h, j * 32 + lane % 4 * 8)),
                       "f"(s(part, h, kBlock + j, 0)), "f"(s(part, h, kBlock + j, 1))
                       : "memory");
    }
  }
};

}  // namespace dlblas
