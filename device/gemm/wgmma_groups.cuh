// Grouped products on Hopper's WGMMA, based on wgmma_mainloop.cuh (ring, products, registers);
// blocks derive the tiles from the groups' sizes. sm_90a only.
// In: as tensor maps, A [rows, K] of all groups, contiguous along K, and B [groups, n, K],
// contiguous along K or n; for sums over a group's rows (kDepth), A [rows, m] and B [rows, n]. The
// groups' sizes, on the device. The maps see 1-byte elements as pairs, with scales (GroupScales;
// wgmma_codes.cuh). Out: D, rounded once. A tile that ends beyond its group is stored row by row,
// so neighbours stay unchanged; their rows, which it reads, change none of the group's own sums.
// Where rows are terms, those are cleared in shared memory before the last stage is multiplied.
// Where a list names A's rows, threads copy them: wgmma_gathered.cuh.
//
//   first warp      sizes → table of tiles in shared memory, one scan
//   then            as in gemm_wgmma: one thread copies, two warpgroups multiply, blocks persist
//
// Flow: [launch], of ops/gemm/grouped/grouped_wgmma_cuda.cpp.
// Read next: groups.cuh, wgmma_mainloop.cuh.
#pragma once

#include "device/gemm/groups.cuh"
#include "device/gemm/wgmma_groups_config.hpp"
#include "device/gemm/wgmma_mainloop.cuh"

namespace dlblas {

/// What a block knows about a group: the tiles of rows before it, its first row in A and D, its row
/// count; for kDepth, the rows are those of A and B.
struct GroupEntry {
  uint32_t before;
  int32_t begin, count;
};

/// Called by the lanes of one warp; a barrier of the block follows. Entry `groups` holds the total
/// of tiles. `rows`: rows of D in each group, for kDepth.
template <GroupTraits G, int kBlock>
__device__ __forceinline__ void make_group_table(const GroupCall& p, int32_t rows,
                                                 GroupEntry* table) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  uint32_t before = 0;
  for (int32_t base = 0; base < p.groups; base += 32) {
    const int32_t group = base + lane;
    GroupRange mine = {-1, 0, 0};
    if (group < p.groups) mine = group_range<G>(p, group);
    const int64_t tall = G.kind == GroupKind::kDepth ? (group < p.groups ? rows : 0) : mine.count;
    const auto tiles = static_cast<uint32_t>((tall + kBlock - 1) / kBlock);
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

constexpr GemmTraits without_span(GemmTraits s) {
  s.span = 0;
  return s;
}

/// This block's tiles, in order.
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
    // Finds the last group that begins at or before the first tile.
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

/// Writes a warpgroup's sums to memory: 64 rows × 128 bytes at a time, through two staging buffers.
template <DType kOut, GemmWgmmaConfig C>
class GroupStore {
 public:
  static constexpr int kBytes = size_of(kOut);
  static constexpr int kRound = 128 / kBytes;  // columns
  static_assert(C.block_n % kRound == 0 && (kBytes == 2 || kBytes == 4));

  __device__ __forceinline__ GroupStore(const GroupedWgmmaCall& call, unsigned char* staging,
                                        int32_t group)
      : call_(call), from_(staging), group_(group) {}

  /// `rows`: how many of the 64 rows of D from `row` on belong to the group.
  template <int kAll>
  __device__ __forceinline__ void run(const float (&d)[kAll], int32_t row, int32_t column,
                                      int32_t rows) {
    if (rows <= 0) return;
#pragma unroll
    for (int first = 0; first < C.block_n; first += kRound) {
      const uint32_t buffer = turn_ * kGemmRoundBytes;
      if (leader()) tma_store_wait_read<C.rounds() - 1>();
      gemm_warpgroup_sync(group_);
      write(d, first / 8, shared_address(from_) + buffer);
      fence_async_shared();
      gemm_warpgroup_sync(group_);
      if (rows < 64) store_rows(from_ + buffer, row, column + first, rows);
      if (leader()) {
        if (rows >= 64) tma_store(call_.product.out[0], from_ + buffer, Tile2{column + first, row});
        tma_store_commit();
      }
      turn_ = (turn_ + 1) % C.rounds();
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
      // Tile t of a store is h = t mod 2 of block j + t / 2; lane 8·t + i addresses its row i.
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

/// Loads a tile of one of B's matrices, as GemmTileCopy does, from a map of three dimensions.
template <GemmWgmmaConfig C, bool kByDepth>
__device__ __forceinline__ void load_of_group(unsigned char* tile, const TensorMap& map,
                                              Mbarrier& full, int32_t column, int32_t k,
                                              int32_t group) {
  constexpr int kBoxes = kByDepth ? C.steps() : (C.block_n + 63) / 64;
  constexpr int kBoxBytes = (kByDepth ? C.block_n : C.block_k) * 128;
#pragma unroll
  for (int i = 0; i < kBoxes; ++i)
    tma_load(tile + i * kBoxBytes, map, full,
             kByDepth ? Tile3{k + i * 64, column, group} : Tile3{column + i * 64, k, group});
}

/// Stages of a group's tile: at least one, since a group without terms yields zeros.
template <GroupTraits G, GemmWgmmaConfig C>
__device__ __forceinline__ int32_t group_stages(const GroupedWgmmaCall& call,
                                                const GroupEntry& entry) {
  const int32_t terms = G.kind == GroupKind::kDepth ? entry.count : call.product.k;
  return terms > C.block_k ? (terms + C.block_k - 1) / C.block_k : 1;
}

template <GemmTraits S, GroupTraits G, GemmWgmmaConfig C>
__device__ __forceinline__ void produce_groups(const GroupedWgmmaCall& call,
                                               const GemmRing<S, C>& ring,
                                               const GroupEntry* table) {
  constexpr bool kDepth = G.kind == GroupKind::kDepth;
  const GemmWgmmaCall& p = call.product;
  using A = GemmTileCopy<C, S.a_by_depth, false, CacheHint::kNone>;
  using B = GemmTileCopy<C, S.b_by_depth, false, CacheHint::kNone>;
  RingPlace<C.stages> at;
#pragma unroll 1
  for (GroupTiles<C> tiles(call.groups, table, p.n); tiles.more(); tiles.advance()) {
    const int32_t row = kDepth ? tiles.row : tiles.entry.begin + tiles.row;
    const int32_t first = kDepth ? tiles.entry.begin : 0;
    const int32_t count = group_stages<G, C>(call, tiles.entry);
#pragma unroll 1
    for (int32_t i = 0; i < count; ++i, at.advance()) {
      const int32_t k = first + i * C.block_k;
      unsigned char* a = ring.tiles + at.stage * GemmRing<S, C>::kStageBytes;
      Mbarrier& full = ring.full[at.stage];
      ring.empty[at.stage].wait(at.parity ^ 1);
      full.arrive_expect_tx(GemmRing<S, C>::kStageBytes - p.absent);
      A::template load<C.block_m, C.block_m>(a, p.a, full, 0, row, k, 0);
      if constexpr (kDepth)
        B::template load<C.block_n, C.block_n>(a + C.a_bytes(), p.b[0], full, 0, tiles.column, k,
                                               0);
      else
        load_of_group<C, S.b_by_depth>(a + C.a_bytes(), p.b[0], full, tiles.column, k, tiles.group);
    }
  }
}

/// Where a list names the rows of A: wgmma_gathered.cuh.
template <GemmTraits S, GroupTraits G, GemmWgmmaConfig C>
__device__ __forceinline__ void produce_gathered(const GroupedWgmmaCall& call,
                                                 const GemmRing<S, C>& ring,
                                                 const GroupEntry* table);

/// Clears a stage's terms from `first` on, before a warpgroup multiplies it: 128-byte rows in each
/// 64-wide box of its own part of A, and of all of B. Both warpgroups of a tile clear B; both write
/// zeros, so the race is harmless.
template <GemmTraits S, GemmWgmmaConfig C>
__device__ __forceinline__ void clear_terms(const GemmRing<S, C>& ring, uint32_t stage,
                                            int32_t rows, int32_t first, int32_t group) {
  static_assert(!S.a_by_depth && !S.b_by_depth);
  constexpr int kBoxBytes = C.block_k * 128, kMine = C.row_blocks();
  constexpr uint32_t kZeros[4] = {};
  const uint32_t a = shared_address(ring.tiles + stage * GemmRing<S, C>::kStageBytes);
  const uint32_t from = first * 128 + threadIdx.x % 128 * 16;
#pragma unroll
  for (int box = 0; box < kMine + C.block_n / 64; ++box) {
    const uint32_t tile =
        a + (box < kMine ? (rows / 64 + box) * kBoxBytes : C.a_bytes() + (box - kMine) * kBoxBytes);
#pragma unroll 1
    for (uint32_t byte = from; byte < kBoxBytes; byte += 2048) store_shared(tile + byte, kZeros);
  }
  fence_async_shared();
  gemm_warpgroup_sync(group);
}

/// Scales of 1-byte elements, as operands of the call: per 128 of K of each row of A {data, row},
/// {-, 128 of K}, and per 128 of K of 128 columns of B {data, 128 of K}, {-, 128 columns}; then the
/// strides between groups, of A {-, group} (0: the rows of all groups are contiguous) and of B.
struct GroupScales {
  static constexpr bool kBlockScales = true;
  enum Operands { kAScale = 0, kBScale = 2, kAGroup = 4, kBGroup = 5 };
};

/// Tells a product of codes where the tile's scales are. `rows`: the warpgroup's first in it.
template <GroupTraits G, GemmWgmmaConfig C, class Product>
__device__ __forceinline__ void begin_group_scales(Product& product, const GroupedWgmmaCall& call,
                                                   const GroupTiles<C>& tiles, int32_t rows) {
  const GemmOperand* const of = call.product.operands;
  const int32_t row = tiles.row + rows;
  const int64_t first = G.kind == GroupKind::kMasked ? row : tiles.entry.begin + row;
  product.begin_scales(call.product, tiles.column, tiles.entry.count - row, 0,
                       static_cast<const float*>(of[GroupScales::kAScale].data) +
                           tiles.group * of[GroupScales::kAGroup].stride +
                           first * of[GroupScales::kAScale].stride,
                       static_cast<const float*>(of[GroupScales::kBScale].data) +
                           tiles.group * of[GroupScales::kBGroup].stride);
}

/// kStages: stages per chain of the tensor core's additions; 0: a tile's sums are one chain.
template <GemmTraits S, GroupTraits G, DType kOut, int32_t kStages, GemmWgmmaConfig C>
__device__ __forceinline__ void consume_groups(const GroupedWgmmaCall& call,
                                               const GemmRing<S, C>& ring, const GroupEntry* table,
                                               int32_t group) {
  constexpr bool kDepth = G.kind == GroupKind::kDepth, kCodes = size_of(S.type) == 1;
  const int32_t rows = C.pingpong ? 0 : group * 64 * C.row_blocks();
  GroupStore<kOut, C> store(call, ring.staging + group * C.rounds() * kGemmRoundBytes, group);
  using Product = typename GemmProductOf<S, C, GroupScales>::Type;
  Product product(ring, rows);
  GroupTiles<C> tiles(call.groups, table, call.product.n);
  // With two in turn: passes over the other one's tile.
  const auto pass_over = [&] {
    if constexpr (C.pingpong) {
      if (tiles.more()) product.skip(group_stages<G, C>(call, tiles.entry));
      tiles.advance();
    }
  };
  if constexpr (C.pingpong) {  // the second begins with the second tile, and the first may go
    if (group == 1) pass_over(), GemmTurn::pass(group);
  }
  if constexpr (kCodes) {
    if (tiles.more()) begin_group_scales<G>(product, call, tiles, rows);
  }
#pragma unroll 1
  while (tiles.more()) {
    typename Product::Sums d;
    const int32_t count = group_stages<G, C>(call, tiles.entry);
    if constexpr (kDepth) {
      const int32_t in_last = tiles.entry.count - (count - 1) * C.block_k;
      product.template run_in_spans<kStages>(d, count, group, [&](int32_t left, uint32_t stage) {
        if (left == 1 && in_last < C.block_k) clear_terms<S, C>(ring, stage, rows, in_last, group);
      });
    } else if constexpr (G.gathers()) {  // threads have written A
      product.run(d, count, group, [](int32_t, uint32_t) { fence_async_shared(); });
    } else {
      product.run(d, count, group);
    }
    if constexpr (kCodes) {  // the next tile's scales come while this one is stored
      GroupTiles<C> after = tiles;
      after.advance();
      if (after.more()) begin_group_scales<G>(product, call, after, rows);
    }
    // A group's part of D: its rows of the whole, or a matrix of its own.
    const int32_t begin = kDepth ? tiles.group * call.product.m : tiles.entry.begin;
    const int32_t end = kDepth ? call.product.m : tiles.entry.count;
#pragma unroll
    for (int r = 0; r < C.row_blocks(); ++r) {
      const int32_t first = tiles.row + rows + r * 64;
      store.run(d[r], begin + first, tiles.column, end - first);
    }
    tiles.advance();
    if constexpr (C.pingpong) pass_over();
  }
  store.finish();
}

template <GemmTraits Given, GroupTraits G, DType kOut, GemmWgmmaConfig C>
__device__ __forceinline__ void groups_wgmma(const GroupedWgmmaCall& call, unsigned char* raw) {
  constexpr GemmTraits S = without_span(Given);  // spans are kept in registers here
  static_assert(valid(C) && C.cluster == 1 && !C.swapped && Given.span % C.block_k == 0);
  static_assert(G.kind == GroupKind::kDepth ? !S.a_by_depth && !S.b_by_depth
                                            : S.a_by_depth && Given.span == 0);
  static_assert(!G.gathers() || (G.kind == GroupKind::kRows && size_of(S.type) == 2));
  const GemmRing<S, C> ring(raw);
  auto* const table = reinterpret_cast<GroupEntry*>(ring.empty + C.stages);
  const int32_t group = __shfl_sync(0xffffffffu, static_cast<int32_t>(threadIdx.x) / 128, 0);
  if (threadIdx.x == 0) {
    if constexpr (!G.gathers()) tma_prefetch_map(call.product.a);
    tma_prefetch_map(call.product.b[0]), tma_prefetch_map(call.product.out[0]);
    ring.start(G.gathers() ? kCopyingArrivals : 1);
  }
  wait_for_dependencies();
  launch_dependents();
  if (threadIdx.x < 32) make_group_table<G, C.block_m>(call.groups, call.product.m, table);
  __syncthreads();
  if (group == 0) {
    give_registers<C>();
    if constexpr (G.gathers())
      produce_gathered<S, G, C>(call, ring, table);
    else if (threadIdx.x == 0)
      produce_groups<S, G, C>(call, ring, table);
  } else {
    get_registers<C>();
    consume_groups<S, G, kOut, Given.span / C.block_k, C>(call, ring, table, group - 1);
  }
}

}  // namespace dlblas
