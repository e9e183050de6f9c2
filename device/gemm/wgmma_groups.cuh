// Grouped products on Hopper's WGMMA: ring, products and registers are wgmma_mainloop.cuh's; which
// tiles there are, blocks read from the groups' sizes. sm_90a alone.
// In: A [rows, K] of all groups, contiguous along K, B [groups · n, K], or [groups · K, n] where it
// is contiguous along n, as tensor maps; sizes of groups on the device. Out: D, rounded once. A
// tile that ends behind its group is stored row by row, so that neighbours stay as they are; what
// it reads of them changes none of the group's own sums.
//
//   first warp      sizes → table of tiles in shared memory, one scan
//   then            as gemm_wgmma: one thread copies, two warpgroups multiply, blocks persist
//
// Flow: [launch], of ops/gemm/grouped/grouped_wgmma_cuda.cpp.
// Read next: groups.cuh, wgmma_mainloop.cuh.
#pragma once

#include "device/gemm/groups.cuh"
#include "device/gemm/wgmma_groups_config.hpp"
#include "device/gemm/wgmma_mainloop.cuh"

namespace dlblas {

/// What a block knows of a group: tiles of rows before it, its first row in A and D, its rows.
struct GroupEntry {
  uint32_t before;
  int32_t begin, count;
};

/// By the lanes of one warp; a barrier of the block follows. Entry `groups` has the tiles of all.
template <GroupTraits G, int kBlock>
__device__ __forceinline__ void make_group_table(const GroupCall& p, GroupEntry* table) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  uint32_t before = 0;
  for (int32_t base = 0; base < p.groups; base += 32) {
    const int32_t group = base + lane;
    GroupRange mine = {-1, 0, 0};
    if (group < p.groups) mine = group_range<G>(p, group);
    const auto tiles = static_cast<uint32_t>((mine.count + kBlock - 1) / kBlock);
    uint32_t upto = tiles;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const uint32_t other = __shfl_up_sync(~0u, upto, step);
      if (lane >= step) upto += other;
    }
    const int64_t first = G.kind == GroupKind::kMasked ? group * p.most : mine.begin;
    if (group < p.groups)
      table[group] = {before + upto - tiles, static_cast<int32_t>(first),
                      static_cast<int32_t>(mine.count)};
    before += __shfl_sync(~0u, upto, 31);
  }
  if (lane == 0) table[p.groups] = {before, 0, 0};
}

/// This block's tiles, one after the other.
template <GemmWgmmaConfig C>
class GroupTiles {
 public:
  int32_t group = 0, row, column;  // `row`: of the group's, where the tile begins
  GroupEntry entry;

  __device__ __forceinline__ GroupTiles(const GroupCall& p, const GroupEntry* table, int32_t n)
      : table_(table),
        groups_(p.groups),
        columns_(static_cast<uint32_t>((n + C.block_n - 1) / C.block_n)),
        all_(table[p.groups].before * columns_),
        unit_(blockIdx.x) {
    // The last group that begins at or before the first tile.
    int32_t low = 0, high = groups_;
    while (high - low > 1) {
      const int32_t middle = (low + high) / 2;
      if (table_[middle].before * columns_ <= unit_)
        low = middle;
      else
        high = middle;
    }
    group = low;
    find();
  }
  __device__ __forceinline__ bool more() const { return unit_ < all_; }
  __device__ __forceinline__ void advance(uint32_t times = 1) {
    unit_ += gridDim.x * times;
    find();
  }

 private:
  static constexpr uint32_t kBand = 8;  // rows of tiles that are walked together
  const GroupEntry* table_;
  int32_t groups_;
  uint32_t columns_, all_, unit_;

  __device__ __forceinline__ void find() {
    if (!more()) return;
    while (group + 1 < groups_ && table_[group + 1].before * columns_ <= unit_) ++group;
    entry = table_[group];
    const uint32_t rows = table_[group + 1].before - entry.before;
    const uint32_t place = unit_ - entry.before * columns_, in_band = kBand * columns_;
    const uint32_t first = place / in_band * kBand, rest = place % in_band, left = rows - first;
    const uint32_t height = left < kBand ? left : kBand;
    row = static_cast<int32_t>((first + rest % height) * C.block_m);
    column = static_cast<int32_t>(rest / height * C.block_n);
  }
};

/// A warpgroup's sums to memory: 64 rows × 128 bytes at a time, through two staging buffers.
template <DType kOut, GemmWgmmaConfig C>
class GroupStore {
 public:
  static constexpr int kBytes = size_of(kOut);
  static constexpr int kRound = 128 / kBytes;  // columns
  static_assert(C.block_n % kRound == 0 && (kBytes == 2 || kBytes == 4));

  __device__ __forceinline__ GroupStore(const GroupedWgmmaCall& call, unsigned char* staging,
                                        int32_t group)
      : call_(call), from_(staging), group_(group) {}

  /// `rows`: of the 64 from `row` of D on, those that the group has.
  template <int kAll>
  __device__ __forceinline__ void run(const float (&d)[kAll], int32_t row, int32_t column,
                                      int32_t rows) {
    if (rows <= 0) return;
#pragma unroll
    for (int first = 0; first < C.block_n; first += kRound) {
      const uint32_t buffer = turn_ * kGemmRoundBytes;
      if (leader()) tma_store_wait_read<1>();
      gemm_warpgroup_sync(group_);
      write(d, first / 8, shared_address(from_) + buffer);
      fence_async_shared();
      gemm_warpgroup_sync(group_);
      if (rows < 64) store_rows(from_ + buffer, row, column + first, rows);
      if (leader()) {
        if (rows >= 64) tma_store(call_.product.out[0], from_ + buffer, Tile2{column + first, row});
        tma_store_commit();
      }
      turn_ ^= 1;
    }
  }
  __device__ __forceinline__ void finish() const {
    if (leader()) tma_store_wait_read<0>();
  }

 private:
  const GroupedWgmmaCall& call_;
  unsigned char* from_;
  int32_t group_;
  uint32_t turn_ = 0;

  __device__ static __forceinline__ bool leader() { return threadIdx.x % 128 == 0; }
  __device__ static __forceinline__ uint32_t offset(int32_t row, int32_t byte) {
    return swizzle_128(row * 128 + byte);
  }

  template <int kAll>
  __device__ __forceinline__ void write(const float (&d)[kAll], int block, uint32_t to) const {
    constexpr int kBlocks = kRound / 8;
    const auto lane = static_cast<int32_t>(threadIdx.x) % 32,
               warp = static_cast<int32_t>(threadIdx.x) / 32 % 4;
    const auto at = [&](int h, int j, int e) { return d[(block + j) * 4 + h * 2 + e]; };
    if constexpr (kBytes == 2) {
      const auto pack = [&](int h, int j) { return pack_pair<kOut>(at(h, j, 0), at(h, j, 1)); };
      // Tile t of a store is h = t mod 2 of block j + t / 2; its row i comes from lane 8·t + i.
      const int32_t h = lane / 8 % 2, i = lane % 8;
#pragma unroll
      for (int j = 0; j < kBlocks; j += 2)
        store_tiles<false>(to + offset(warp * 16 + h * 8 + i, (j + lane / 16) * 16),
                           {pack(0, j), pack(1, j), pack(0, j + 1), pack(1, j + 1)});
    } else {
#pragma unroll
      for (int j = 0; j < kBlocks; ++j)
#pragma unroll
        for (int h = 0; h < 2; ++h)
          asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(
                           to + offset(warp * 16 + lane / 4 + 8 * h, j * 32 + lane % 4 * 8)),
                       "f"(at(h, j, 0)), "f"(at(h, j, 1))
                       : "memory");
    }
  }

  /// Rows of D are multiples of 16 bytes.
  __device__ __forceinline__ void store_rows(const unsigned char* from, int32_t row, int32_t column,
                                             int32_t rows) const {
    const int64_t left = int64_t{call_.product.n - column} * kBytes;
#pragma unroll 1
    for (int32_t c = static_cast<int32_t>(threadIdx.x) % 128; c < rows * 8; c += 128) {
      const int32_t r = c / 8, byte = c % 8 * 16;
      if (byte >= left) continue;
      char* const to =
          static_cast<char*>(call_.out.data) + ((row + r) * call_.out.row + column) * kBytes + byte;
      *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from + offset(r, byte));
    }
  }
};

template <GemmTraits S, GemmWgmmaConfig C>
__device__ __forceinline__ void produce_groups(const GroupedWgmmaCall& call,
                                               const GemmRing<S, C>& ring,
                                               const GroupEntry* table) {
  const GemmWgmmaCall& p = call.product;
  using A = GemmTileCopy<C, true, false, CacheHint::kNone>;
  using B = GemmTileCopy<C, S.b_by_depth, false, CacheHint::kNone>;
  RingPlace<C.stages> at;
  const int32_t count = (p.k + C.block_k - 1) / C.block_k;
#pragma unroll 1
  for (GroupTiles<C> tiles(call.groups, table, p.n); tiles.more(); tiles.advance()) {
    const int32_t row = tiles.entry.begin + tiles.row;
    const int32_t b_row = tiles.column + (S.b_by_depth ? tiles.group * p.n : 0);
    const int32_t b_k = S.b_by_depth ? 0 : tiles.group * p.k;
#pragma unroll 1
    for (int32_t i = 0; i < count; ++i, at.advance()) {
      const int32_t k = i * C.block_k;
      unsigned char* a = ring.tiles + at.stage * GemmRing<S, C>::kStageBytes;
      Mbarrier& full = ring.full[at.stage];
      ring.empty[at.stage].wait(at.parity ^ 1);
      full.arrive_expect_tx(GemmRing<S, C>::kStageBytes);
      A::template load<C.block_m, C.block_m>(a, p.a, full, 0, row, k, 0);
      B::template load<C.block_n, C.block_n>(a + C.a_bytes(), p.b[0], full, 0, b_row, b_k + k, 0);
    }
  }
}

template <GemmTraits S, DType kOut, GemmWgmmaConfig C>
__device__ __forceinline__ void consume_groups(const GroupedWgmmaCall& call,
                                               const GemmRing<S, C>& ring, const GroupEntry* table,
                                               int32_t group) {
  const int32_t count = (call.product.k + C.block_k - 1) / C.block_k;
  const int32_t rows = C.pingpong ? 0 : group * 64 * C.row_blocks();
  GroupStore<kOut, C> store(call, ring.staging + group * 2 * kGemmRoundBytes, group);
  GemmProduct<S, C> product(ring, rows);
  GroupTiles<C> tiles(call.groups, table, call.product.n);
  if constexpr (C.pingpong) {  // the second begins with the second tile, and the first may go
    if (group == 1) tiles.advance(), product.skip(count), GemmTurn::pass(group);
  }
#pragma unroll 1
  for (; tiles.more(); tiles.advance(C.pingpong ? 2 : 1)) {
    typename GemmProduct<S, C>::Sums d;
    product.run(d, count, group);
    if constexpr (C.pingpong) product.skip(count);
#pragma unroll
    for (int r = 0; r < C.row_blocks(); ++r) {
      const int32_t first = tiles.row + rows + r * 64;
      store.run(d[r], tiles.entry.begin + first, tiles.column, tiles.entry.count - first);
    }
  }
  store.finish();
}

template <GemmTraits S, GroupTraits G, DType kOut, GemmWgmmaConfig C>
__device__ __forceinline__ void groups_wgmma(const GroupedWgmmaCall& call, unsigned char* raw) {
  static_assert(valid(C) && C.cluster == 1 && !C.swapped && S.a_by_depth && S.span == 0);
  const GemmRing<S, C> ring(raw);
  auto* const table = reinterpret_cast<GroupEntry*>(ring.empty + C.stages);
  const int32_t group = __shfl_sync(0xffffffffu, static_cast<int32_t>(threadIdx.x) / 128, 0);
  if (threadIdx.x == 0) {
    tma_prefetch_map(call.product.a), tma_prefetch_map(call.product.b[0]);
    tma_prefetch_map(call.product.out[0]);
    ring.start();
  }
  wait_for_dependencies();
  launch_dependents();
  if (threadIdx.x < 32) make_group_table<G, C.block_m>(call.groups, table);
  __syncthreads();
  if (group == 0) {
    if constexpr (C.warpgroups == 2) release_registers<40>();
    if (threadIdx.x == 0) produce_groups<S, C>(call, ring, table);
  } else {
    if constexpr (C.warpgroups == 2) take_registers<232>();
    consume_groups<S, kOut, C>(call, ring, table, group - 1);
  }
}

}  // namespace dlblas
