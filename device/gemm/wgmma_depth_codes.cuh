// Sums of e4m3 codes over the rows of groups, on Hopper's WGMMA: D[group][m, n] = Σ over blocks of
// 128 terms of (A's scale · B's scale) · Σ A[m, k] · B[n, k], over the group's own terms k.
// In: as tensor maps of codes, A [m, K] and B [n, K], contiguous along the terms K of all groups;
// per 128 terms, counted from the first of all, a scale of each row of A and of B; the groups'
// sizes, on the device. Out: D, rounded once; zeros for a group without terms.
//
//   copying warpgroup       one thread: codes and their scales → ring
//   multiplying warpgroups  tensor cores sum a block's 128 terms while those of the block before
//                           are multiplied by their scales and added, in f32
//
// A group begins and ends anywhere in a block, so what is not its own there is cleared in shared
// memory before it is multiplied: a neighbour's codes may be NaN.
// Numerics: one order of sums, whatever the tile. Flow: [launch], of
// ops/gemm/grouped_block/grouped_depth_wgmma_cuda.cpp.
// Read next: wgmma_groups.cuh, wgmma_codes.cuh (products along K of whole blocks).
#pragma once

#include "device/bulk_copy.cuh"
#include "device/gemm/wgmma_groups.cuh"
#include "device/wgmma_codes.cuh"

namespace dlblas {

inline constexpr GemmTraits kDepthCodes = {
    .type = DType::kF8E4M3, .a_by_depth = true, .b_by_depth = true};

/// The blocks of 128 terms that a group has a part of.
struct DepthBlocks {
  int32_t first, count;  // none for a group without terms
  int32_t begin, end;    // the group's terms, from the first one of block `first` on

  __device__ __forceinline__ explicit DepthBlocks(const GroupEntry& entry)
      : first(entry.begin / kDepthBlock),
        begin(entry.begin % kDepthBlock),
        end(begin + entry.count) {
    count = entry.count > 0 ? (end + kDepthBlock - 1) / kDepthBlock : 0;
  }
};

/// The scales of a stage, in shared memory: of the tile's rows of A, then of B.
template <GemmWgmmaConfig C>
struct DepthScales {
  static constexpr int kCount = depth_scale_count(C), kBytes = kCount * 4;
  float* all;

  __device__ __forceinline__ float* of_stage(uint32_t stage) const { return all + stage * kCount; }

  __device__ __forceinline__ void load(uint32_t stage, Mbarrier& full, const GemmWgmmaCall& p,
                                       int32_t row, int32_t column, int32_t block) const {
    const uint32_t to = shared_address(of_stage(stage));
    const GemmOperand &a = p.operands[kDepthAScale], &b = p.operands[kDepthBScale];
    const auto* const of_a = static_cast<const float*>(a.data) + block * a.stride + row;
    const auto* const of_b = static_cast<const float*>(b.data) + block * b.stride + column;
    bulk_load(to, of_a, C.block_m * 4, full);
    bulk_load(to + C.block_m * 4, of_b, C.block_n * 4, full);
  }
};

/// Clears the codes before `begin`, or from `end` on, of the 16 of a row from term `term` on.
__device__ __forceinline__ void clear_part(uint32_t at, int32_t begin, int32_t end) {
  const auto before = [](int32_t codes) {  // bits of a word's first codes
    return (uint64_t{1} << (codes < 0 ? 0 : codes > 4 ? 4 : codes) * 8) - 1;
  };
  uint32_t words[4];
  load_shared(words, at);
#pragma unroll
  for (int w = 0; w < 4; ++w)
    words[w] &= static_cast<uint32_t>(before(end - w * 4) & ~before(begin - w * 4));
  store_shared(at, words);
}

/// Clears the codes of a stage whose term is not in begin … end - 1: in a warpgroup's 64 rows of A
/// at `a`, and in all rows of B at `b`. Both warpgroups of a tile clear B: they write the same, so
/// the race is harmless.
template <GemmWgmmaConfig C>
__device__ __forceinline__ void clear_codes(uint32_t a, uint32_t b, int32_t begin, int32_t end) {
  constexpr uint32_t kZeros[4] = {};
#pragma unroll 1
  for (int32_t r = static_cast<int32_t>(threadIdx.x) % 128; r < 64 + C.block_n; r += 128) {
    const uint32_t row = r < 64 ? a + r * 128 : b + (r - 64) * 128;
    const auto at = [&](int32_t term) { return row + (term ^ r % 8 * 16); };
#pragma unroll 1
    for (int32_t term = 0; term < kDepthBlock; term += 16) {
      if (term + 16 <= begin || term >= end)
        store_shared(at(term), kZeros);
      else if (term < begin || term + 16 > end)
        clear_part(at(term), begin - term, end - term);
    }
  }
}

template <GroupTraits G, GemmWgmmaConfig C>
__device__ __forceinline__ void produce_depth_codes(const GroupedWgmmaCall& call,
                                                    const GemmRing<kDepthCodes, C>& ring,
                                                    const DepthScales<C>& scales,
                                                    const GroupEntry* table) {
  constexpr uint32_t kStageBytes = GemmRing<kDepthCodes, C>::kStageBytes;
  const GemmWgmmaCall& p = call.product;
  RingPlace<C.stages> at;
#pragma unroll 1
  for (GroupTiles<C> tiles(call.groups, table, p.n); tiles.more(); tiles.advance()) {
    const DepthBlocks blocks(tiles.entry);
#pragma unroll 1
    for (int32_t i = 0; i < blocks.count; ++i, at.advance()) {
      const int32_t block = blocks.first + i;
      unsigned char* const a = ring.tiles + at.stage * kStageBytes;
      Mbarrier& full = ring.full[at.stage];
      ring.empty[at.stage].wait(at.parity ^ 1);
      full.arrive_expect_tx(kStageBytes - p.absent + DepthScales<C>::kBytes);
      tma_load(a, p.a, full, Tile2{block * kDepthBlock, tiles.row});
      tma_load(a + C.a_bytes(), p.b[0], full, Tile2{block * kDepthBlock, tiles.column});
      scales.load(at.stage, full, p, tiles.row, tiles.column, block);
    }
  }
}

/// One warpgroup's sums: 64 rows of a tile over all blocks of a group.
template <GemmWgmmaConfig C>
class DepthCodeProduct {
 public:
  static constexpr int kSums = C.block_n / 2;
  static constexpr bool kInTurn = kSums > 64;
  using Sums = float[1][kSums];
  static_assert(C.block_k == 64 && C.row_blocks() == 1 && !C.pingpong && C.block_n % 16 == 0);

  __device__ __forceinline__ DepthCodeProduct(const GemmRing<kDepthCodes, C>& ring,
                                              const DepthScales<C>& scales, int32_t rows,
                                              int32_t group)
      : ring_(ring),
        scales_(scales),
        a_(wgmma_tile_k(ring.tiles + rows * 128)),
        b_(wgmma_tile_k(ring.tiles + C.a_bytes())),
        rows_(rows),
        group_(group) {}

  __device__ __forceinline__ void run(Sums& sums, const DepthBlocks& blocks) {
    float(&d)[kSums] = sums[0];
#pragma unroll
    for (float& v : d) v = 0;
    if (blocks.count == 0) return;
    if constexpr (kInTurn) {
      run_in_turn(d, blocks);
    } else {
      run_two(d, blocks);
    }
  }

 private:
  const GemmRing<kDepthCodes, C>& ring_;
  const DepthScales<C>& scales_;
  uint64_t a_, b_;  // of stage 0
  int32_t rows_, group_;
  RingPlace<C.stages> at_, oldest_;

  /// There is no room for two sets of accumulators: one warpgroup's are multiplied while the
  /// other's are added. Without turns, both at once: 1 % longer on an H200.
  __device__ __forceinline__ void run_in_turn(float (&d)[kSums], const DepthBlocks& blocks) {
    static_assert(C.warpgroups == 2);
    float part[kSums];
#pragma unroll 1
    for (int32_t i = 0; i < blocks.count; ++i) {
      arrive(blocks, i);
      GemmTurn::wait(group_);
      issue(part);
      wgmma_wait<0>();
      GemmTurn::pass(group_);
      promote(d, part);
    }
  }

  /// One set of accumulators is multiplied while the other is added.
  __device__ __forceinline__ void run_two(float (&d)[kSums], const DepthBlocks& blocks) {
    float part[2][kSums];
    arrive(blocks, 0);
    issue(part[0]);
    int32_t i = 1;  // the next to issue
#pragma unroll 1
    for (; i + 1 < blocks.count; i += 2) {
      step(d, part[0], part[1], blocks, i);
      step(d, part[1], part[0], blocks, i + 1);
    }
    if (i < blocks.count) {
      step(d, part[0], part[1], blocks, i);
      last(d, part[1]);
    } else {
      last(d, part[0]);
    }
  }

  __device__ __forceinline__ void step(float (&d)[kSums], float (&now)[kSums], float (&next)[kSums],
                                       const DepthBlocks& blocks, int32_t i) {
    arrive(blocks, i);
    issue(next);
    wgmma_wait<1>();
    promote(d, now);
  }
  __device__ __forceinline__ void last(float (&d)[kSums], float (&now)[kSums]) {
    wgmma_wait<0>();
    promote(d, now);
  }
  /// Waits for the next stage, block `i` of the group's, and clears what is not the group's.
  __device__ __forceinline__ void arrive(const DepthBlocks& blocks, int32_t i) const {
    ring_.full[at_.stage].wait(at_.parity);
    const int32_t begin = i == 0 ? blocks.begin : 0, end = blocks.end - i * kDepthBlock;
    if (begin == 0 && end >= kDepthBlock) return;
    const uint32_t a =
        shared_address(ring_.tiles) + at_.stage * GemmRing<kDepthCodes, C>::kStageBytes;
    clear_codes<C>(a + rows_ * 128, a + C.a_bytes(), begin, end);
    fence_async_shared();
    gemm_warpgroup_sync(group_);
  }
  __device__ __forceinline__ void issue(float (&part)[kSums]) {
    const uint32_t bytes = at_.stage * GemmRing<kDepthCodes, C>::kStageBytes;
    wgmma_pin(part);
    wgmma_fence();
    wgmma_codes(part, wgmma_advance(a_, bytes), wgmma_advance(b_, bytes), 0);
    wgmma_commit();
    at_.advance();
  }
  /// Adds the sums of the oldest stage, times their scales, and releases it.
  __device__ __forceinline__ void promote(float (&d)[kSums], float (&part)[kSums]) {
    wgmma_pin(part);
    const int32_t thread = static_cast<int32_t>(threadIdx.x) % 128;
    const float* const of = scales_.of_stage(oldest_.stage);
    const float* const of_a = of + rows_ + wgmma_row(thread, 0);
    const float* const of_b = of + C.block_m + thread % 4 * 4;
    const float row[2] = {of_a[0], of_a[8]};
#pragma unroll
    for (int j = 0; j < kSums / 8; ++j) {
      const float4 four = *reinterpret_cast<const float4*>(of_b + j * 16);
      const float column[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        float& sum = d[j * 8 + i];
        sum = fmaf(row[i / 2 % 2] * column[i / 4 * 2 + i % 2], part[j * 8 + i], sum);
      }
    }
    wgmma_pin(d);  // not later: `part` is soon written again
    ring_.release(oldest_.stage);
    oldest_.advance();
  }
};

template <GroupTraits G, DType kOut, GemmWgmmaConfig C>
__device__ __forceinline__ void consume_depth_codes(const GroupedWgmmaCall& call,
                                                    const GemmRing<kDepthCodes, C>& ring,
                                                    const DepthScales<C>& scales,
                                                    const GroupEntry* table, int32_t group) {
  const int32_t rows = group * 64;
  GroupStore<kOut, C> store(call, ring.staging + group * C.rounds() * kGemmRoundBytes, group);
  DepthCodeProduct<C> product(ring, scales, rows, group);
  if (DepthCodeProduct<C>::kInTurn && group == 1) GemmTurn::pass(group);  // the first may go
#pragma unroll 1
  for (GroupTiles<C> tiles(call.groups, table, call.product.n); tiles.more(); tiles.advance()) {
    typename DepthCodeProduct<C>::Sums d;
    product.run(d, DepthBlocks(tiles.entry));
    const int32_t first = tiles.row + rows;
    store.run(d[0], tiles.group * call.product.m + first, tiles.column, call.product.m - first);
  }
  store.finish();
}

/// A block's whole work.
template <GroupTraits G, DType kOut, GemmWgmmaConfig C>
__device__ __forceinline__ void depth_codes_wgmma(const GroupedWgmmaCall& call,
                                                  unsigned char* raw) {
  static_assert(valid(C) && G.kind == GroupKind::kDepth && C.cluster == 1 && !C.swapped);
  const GemmRing<kDepthCodes, C> ring(raw);
  const DepthScales<C> scales = {reinterpret_cast<float*>(ring.empty + C.stages)};
  auto* const table = reinterpret_cast<GroupEntry*>(scales.of_stage(C.stages));
  const int32_t group = __shfl_sync(0xffffffffu, static_cast<int32_t>(threadIdx.x) / 128, 0);
  if (threadIdx.x == 0) {
    tma_prefetch_map(call.product.a), tma_prefetch_map(call.product.b[0]);
    tma_prefetch_map(call.product.out[0]);
    ring.start();
  }
  wait_for_dependencies();
  launch_dependents();
  if (threadIdx.x < 32) make_group_table<G, C.block_m>(call.groups, call.product.m, table);
  __syncthreads();
  if (group == 0) {
    give_registers<C>();
    if (threadIdx.x == 0) produce_depth_codes<G>(call, ring, scales, table);
  } else {
    get_registers<C>();
    consume_depth_codes<G, kOut>(call, ring, scales, table, group - 1);
  }
}

}  // namespace dlblas
