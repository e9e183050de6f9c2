// The ring between the copying thread and the multiplying warpgroups.
// In: a call's tensor maps. Out: stages in shared memory: A's tile, then B's, as WGMMA reads them
// (128-byte swizzle). An operand contiguous along K is stored in rows of 64 of K, as block_k / 64
// consecutive tiles; one contiguous along M or N in rows of 64 of that, block_k rows per tile.
//
// The protocol. Stage s has two barriers. full[s] counts one arrival, from this block's copying
// thread, and the bytes of the whole stage. empty[s] counts one lane of each warp that reads the
// stage, in each block that this block's copies reach. Both begin in phase 0.
//   copying thread   waits on empty[s] with parity ^ 1 (a new ring is empty), announces bytes at
//                    full[s], issues the copies; under multicast its share of a tile for all blocks
//                    of the cluster, whose own full[s] count it. It may write into another block's
//                    stage because that block's warps, too, have arrived at this block's empty[s].
//   warpgroup        waits on full[s] with parity, issues WGMMA; when the products of a stage have
//                    finished (wait_group), a lane of each warp arrives at empty[s] of all sharers.
// A wait by parity is correct only if the waiter is less than one round of the ring away from that
// phase: ping-pong warpgroups therefore take turns (GemmTurn) before the first wait of a tile, and
// pass the turn when all of a tile's products are issued.
// No block ends before the last arrival from its cluster: a cluster barrier comes last.
// Read next: wgmma_mainloop.cuh.
#pragma once

#include "device/bulk_copy.cuh"
#include "device/gemm/wgmma_tiles.cuh"
#include "device/tma.cuh"

namespace dlblas {

template <GemmTraits S, GemmWgmmaConfig C>
struct GemmRing {
  static constexpr int kStageBytes = C.stage_bytes(S.b_by_depth);
  unsigned char* tiles;
  unsigned char* staging;
  unsigned char* carried;
  unsigned char* gains;  // where rows are normalised, as what follows empty: wgmma_norm.cuh
  Mbarrier* full;
  Mbarrier* empty;
  Mbarrier* ready;
  Mbarrier* scaled;
  Mbarrier* judged;
  float* factors;
  int32_t* again;

  __device__ __forceinline__ explicit GemmRing(unsigned char* raw) {
    tiles = raw + (1024 - shared_address(raw) % 1024) % 1024;
    staging = tiles + C.stages * kStageBytes;
    carried = staging + C.staging_bytes();
    gains = carried + carried_bytes(S.span, C.block_m * C.block_n);
    full = reinterpret_cast<Mbarrier*>(gains + C.gains_bytes());
    empty = full + C.stages;
    if constexpr (C.normed()) {
      ready = empty + C.stages, scaled = ready + C.stages, judged = scaled + 1;
      factors = reinterpret_cast<float*>(judged + 1);
      again = reinterpret_cast<int32_t*>(factors + C.block_m);
    }
  }
  /// Called by one thread; a barrier of the block or the cluster follows. `arrivals`: that fill a
  /// stage, beside bytes.
  __device__ __forceinline__ void start(uint32_t arrivals = 1) const {
    constexpr int kWarps = (C.pingpong ? 1 : C.warpgroups) * 4;
    for (int s = 0; s < C.stages; ++s) {
      full[s].init(arrivals);
      empty[s].init(kWarps * C.sharers());
      if constexpr (C.normed()) ready[s].init(4);
    }
    if constexpr (C.normed()) scaled->init(4), judged->init(kWarps), *again = 0;
    fence_mbarrier_init();
  }
  /// Where rows are normalised: waits for the verdict on the first pass.
  __device__ __forceinline__ bool comes_again() const {
    judged->wait(0);
    return *static_cast<volatile int32_t*>(again) != 0;
  }
  /// Called when this warp has read the stage.
  __device__ __forceinline__ void release(uint32_t stage) const {
    const uint32_t lane = threadIdx.x % 32;
    if constexpr (C.multicast()) {
      if (lane < C.cluster) empty[stage].signal(lane);
    } else {
      if (lane == 0) empty[stage].arrive();
    }
  }
};

/// Copies one operand's tile of a stage. kRows: rows along M or N; kShared: each block of the
/// cluster loads its part for all.
template <GemmWgmmaConfig C, bool kByDepth, bool kShared, CacheHint kHint>
struct GemmTileCopy {
  static constexpr uint16_t kAll = (1 << C.cluster) - 1;

  __device__ static __forceinline__ void copy(unsigned char* to, const TensorMap& map,
                                              Mbarrier& full, Tile2 at, int32_t matrix) {
    if constexpr (C.batched)
      tma_load(to, map, full, Tile3{at.x, at.y, matrix});
    else if constexpr (kShared)
      tma_load_multicast(to, map, full, at, kAll);
    else
      tma_load<kHint>(to, map, full, at);
  }

  /// Loads rows `first` … `first` + kRows - 1 of the stage's tile, which has kTile; in the matrix
  /// they begin at `row`. `matrix`: of a stack.
  template <int kRows, int kTile>
  __device__ static __forceinline__ void load(unsigned char* tile, const TensorMap& map,
                                              Mbarrier& full, int32_t first, int32_t row, int32_t k,
                                              uint32_t rank, int32_t matrix = 0) {
    if constexpr (kByDepth) {
      constexpr int kEach = kShared ? kRows / C.cluster : kRows;
      const int32_t mine = kShared ? static_cast<int32_t>(rank) * kEach : 0;
#pragma unroll
      for (int s = 0; s < C.steps(); ++s)
        copy(tile + (s * kTile + first + mine) * 128, map, full, Tile2{k + s * 64, row + mine},
             matrix);
    } else {
      constexpr int kEach = kShared ? C.block_k / C.cluster : C.block_k;
      const int32_t mine = kShared ? static_cast<int32_t>(rank) * kEach : 0;
#pragma unroll
      for (int r = 0; r < (kRows + 63) / 64; ++r)
        copy(tile + ((first / 64 + r) * C.block_k + mine) * 128, map, full,
             Tile2{row + r * 64, k + mine}, matrix);
    }
  }
};

/// The same for rows that are folded columns of D: pieces, each a copy.
template <GemmWgmmaConfig C, int kFold, class Copy>
__device__ __forceinline__ void load_folded(unsigned char* tile, const TensorMap& map,
                                            Mbarrier& full, int32_t column, int32_t k,
                                            uint32_t rank) {
  constexpr bool kShared = C.share == GemmShare::kB;
  constexpr int kEach = C.block_n / kGemmFoldPiece / (kShared ? C.cluster : 1);
  const int32_t first = kShared ? static_cast<int32_t>(rank) * kEach * kGemmFoldPiece : 0;
#pragma unroll
  for (int s = 0; s < C.steps(); ++s)
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int32_t row = first + i * kGemmFoldPiece;
      Copy::copy(tile + (s * C.block_n + row) * 128, map, full,
                 Tile2{k + s * 64, gemm_unfolded<kFold>(column + row)}, 0);
    }
}

template <GemmTraits S, GemmWgmmaConfig C>
__device__ __forceinline__ void copy_given(const GemmWgmmaCall& call, const GemmRing<S, C>& ring,
                                           RingPlace<C.stages>& at, int32_t givers);

/// Everything that the copying thread does.
template <GemmTraits S, GemmWgmmaConfig C, int kParts, int kFold = 0>
__device__ __forceinline__ void produce(const GemmWgmmaCall& call, const GemmRing<S, C>& ring) {
  constexpr int kColumns = C.block_n / kParts;
  static_assert(S.b_by_depth || kColumns % 64 == 0 || kParts == 1, "parts are whole boxes");
  static_assert(kFold == 0 || (S.b_by_depth && kParts == 1), "pieces are rows of boxes");
  constexpr CacheHint kOnce = C.weight_once ? CacheHint::kFirst : CacheHint::kNone;
  using A =
      GemmTileCopy<C, S.a_by_depth, C.share == GemmShare::kA, C.swapped ? kOnce : CacheHint::kNone>;
  using B =
      GemmTileCopy<C, S.b_by_depth, C.share == GemmShare::kB, C.swapped ? CacheHint::kNone : kOnce>;
  RingPlace<C.stages> at;
#pragma unroll 1
  for (GemmTiles<C, kColumns> tiles(call); tiles.more(); tiles.advance()) {
    const GemmPart part = tiles.part();
    const int32_t matrix = C.batched ? part.tile.row / call.rows_each : 0;
    const int32_t row = part.tile.row - (C.batched ? matrix * call.rows_each : 0);
    // Where rows are normalised, a block has one tile, and may have to copy it twice.
    bool twice = false;
#pragma unroll 1
    for (int32_t i = 0; i < part.count; ++i, at.advance()) {
      const int32_t k = (part.first + i) * C.block_k;
      unsigned char* a = ring.tiles + at.stage * GemmRing<S, C>::kStageBytes;
      Mbarrier& full = ring.full[at.stage];
      ring.empty[at.stage].wait(at.parity ^ 1);
      if constexpr (C.normed()) {
        const int32_t there = (call.k - k < C.block_k ? call.k - k : C.block_k) * C.gain_bytes;
        full.arrive_expect_tx(GemmRing<S, C>::kStageBytes - call.absent + there);
        bulk_load(shared_address(ring.gains + at.stage * C.block_k * C.gain_bytes),
                  static_cast<const char*>(call.operands[kGemmGainPlace].data) + k * C.gain_bytes,
                  there, full);
      } else {
        full.arrive_expect_tx(GemmRing<S, C>::kStageBytes - call.absent);
      }
      A::template load<C.block_m, C.block_m>(a, call.a, full, 0, row, k, tiles.rank, matrix);
      if constexpr (kFold > 0) {
        load_folded<C, kFold, B>(a + C.a_bytes(), call.b[0], full, part.tile.column, k, tiles.rank);
      } else {
#pragma unroll
        for (int p = 0; p < kParts; ++p)
          B::template load<kColumns, C.block_n>(a + C.a_bytes(), call.b[p], full, p * kColumns,
                                                part.tile.column, k, tiles.rank, matrix);
      }
      if constexpr (C.normed())
        if (i + 1 == part.count && !twice && ring.comes_again()) twice = true, i = -1;
    }
    if constexpr (C.stream) copy_given<S, C>(call, ring, at, part.givers);
  }
}

}  // namespace dlblas
