// The shared memory of a block of attention_wgmma, and how its warps synchronise: rings of tiles of
// Q, K and V, for f8 also of V's codes, and two slots that announce the next tiles.
// Read next: attention_wgmma.cuh.
#pragma once

#include "device/reduce.cuh"
#include "device/shared.cuh"
#include "device/tma.cuh"
#include "ops/attention/cuda/attention_tile.cuh"
#include "ops/attention/cuda/attention_widen.cuh"

namespace dlblas::attention::wgmma_detail {

constexpr int rows_of(const AttentionWgmmaConfig& c) { return c.groups * 64; }
constexpr int threads_of(const AttentionWgmmaConfig& c) { return (c.groups + 1) * 128; }
/// Whether the host may request this order: with heads of 64, registers have no room for it.
template <AttentionTraits S>
constexpr bool kTogether = (S.d + S.dv) * size_of(S.from) >= kTogetherBytes;

/// Named barriers: 1 for all consumer threads, 2 … for each warpgroup, 5 … for turns.
template <int kThreads>
__device__ __forceinline__ void barrier_wait(int32_t barrier) {
  asm volatile("barrier.cta.sync %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}
template <int kThreads>
__device__ __forceinline__ void barrier_arrive(int32_t barrier) {
  asm volatile("barrier.cta.arrive %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}
/// Whether `mine` is true in any thread of the warpgroup.
__device__ __forceinline__ bool group_any(int32_t group, bool mine) {
  uint32_t any;
  asm volatile(
      "{\n\t.reg .pred p, q;\n\tsetp.ne.u32 p, %2, 0;\n\t"
      "barrier.cta.red.or.pred q, %1, 128, p;\n\tselp.u32 %0, 1, 0, q;\n\t}"
      : "=r"(any)
      : "r"(group + 2), "r"(static_cast<uint32_t>(mine))
      : "memory");
  return any != 0;
}

/// Blocks of keys that rows of a tile see: [first, end), and those that every row sees in full.
struct alignas(16) Blocks {
  int32_t first, end, clean_from, clean_to;

  __device__ __forceinline__ bool clean(int32_t n) const { return n >= clean_from && n < clean_to; }
};
/// The same for all lanes of `lanes`: in uniform registers, as loop counts and descriptors should
/// be, and conditions of loops, or whatever changes in them leaves these too.
__device__ __forceinline__ int32_t uniform(int32_t x, uint32_t lanes = 0xffffffffu) {
  return __reduce_min_sync(lanes, x);
}
__device__ __forceinline__ Blocks uniform(const Blocks& of, uint32_t lanes = 0xffffffffu) {
  return {uniform(of.first, lanes), uniform(of.end, lanes), uniform(of.clean_from, lanes),
          uniform(of.clean_to, lanes)};
}
/// Those of `rows` rows from row `from` of a tile.
template <AttentionWgmmaConfig C>
__device__ __forceinline__ Blocks blocks_of(const AttentionParams& p, const Tile& t,
                                            int32_t from = 0, int32_t rows = rows_of(C)) {
  const int32_t last = min(t.first + from + rows, t.q_rows) - 1;
  const KeyRange lowest = visible(p, t, t.first + from), highest = visible(p, t, last);
  return {lowest.first / C.keys, (highest.end + C.keys - 1) / C.keys,
          (highest.first + C.keys - 1) / C.keys, lowest.end / C.keys};
}

/// What the copying thread announces: a tile, its blocks and those of each warpgroup's rows, from
/// the tile's first to the last that such a row sees. all.first < 0: there is no further tile.
struct alignas(16) Slot {
  Blocks all, own[4];
  Tile tile;
};

/// How a tile holds rows of `kWidth` elements of `kSize` bytes: panels side by side, each of rows
/// of 128 bytes, or of 64 where f8 has no more. The copy engine fills columns past the head's with
/// zeros.
template <int kWidth, int kSize>
struct Panels {
  static constexpr int kRow = kWidth * kSize <= 64 && kSize == 1 ? 64 : 128;
  static constexpr int kElements = kRow / kSize;  // of a row of a panel
  static constexpr int kCount = (kWidth + kElements - 1) / kElements;
  static constexpr int kBytes = kCount * kRow;  // of a row of the tile
};

template <AttentionTraits S, AttentionWgmmaConfig C>
struct Shared {
  /// kF8: scores are products of f8. kWideKeys: K is widened, from pages of f8; kCodes: V is, in
  /// both cases.
  static constexpr bool kF8 = is_f8(S.from), kWideKeys = S.page > 0 && is_f8(S.cache);
  static constexpr bool kCodes = kF8 || kWideKeys;
  /// The copying warp has registers left. It then determines the blocks of each warpgroup's rows,
  /// and asks other warps, which have nothing to widen, to search V.
  static constexpr bool kSpare = S.page == 0 || C.groups == 2, kSearchers = kSpare && !kCodes;
  /// Tiles of Q and K that are multiplied, of V that is, and of both as they are copied.
  using Head = Panels<S.d, size_of(S.from)>;
  using Values = Panels<S.dv, 2>;
  static constexpr int kQuery = rows_of(C) * Head::kBytes, kBlock = C.keys * Head::kBytes;
  static constexpr int kValues = C.keys * Values::kBytes;
  using CopiedKeys = Panels<S.d, kCodes ? 1 : 2>;
  using CopiedValues = Panels<S.dv, kCodes ? 1 : 2>;
  /// Barriers before `found`, an even number: found is aligned to 16 bytes.
  static constexpr int kBarriers = 4 + 2 * C.queries + (kCodes ? 8 : 4) * C.stages;
  unsigned char *q, *k, *v;
  unsigned char *codes, *key_codes;  // V and K as they are copied, to be widened
  Slot* slots;
  Mbarrier *slot_full, *slot_empty, *q_full, *q_empty, *k_full, *k_empty, *v_full, *v_empty;
  Mbarrier *codes_full, *codes_empty, *key_codes_full, *key_codes_empty;
  // Of the last blocks of V to search, four words each: whether each searching warp found a value
  // that is not finite, and where the block is.
  uint32_t* found;
  Mbarrier *asked, *searched;

  __device__ __forceinline__ explicit Shared(unsigned char* raw) {
    q = raw + (1024 - shared_address(raw) % 1024) % 1024;
    k = q + C.queries * kQuery;
    v = k + C.stages * kBlock;
    codes = v + C.stages * kValues;
    key_codes = codes + (kCodes ? C.stages * C.keys * CopiedValues::kBytes : 0);
    slots = reinterpret_cast<Slot*>(key_codes +
                                    (kWideKeys ? C.stages * C.keys * CopiedKeys::kBytes : 0));
    slot_full = reinterpret_cast<Mbarrier*>(slots + 2), slot_empty = slot_full + 2;
    q_full = slot_empty + 2, q_empty = q_full + C.queries;
    k_full = q_empty + C.queries, k_empty = k_full + C.stages;
    v_full = k_empty + C.stages, v_empty = v_full + C.stages;
    codes_full = v_empty + C.stages, codes_empty = codes_full + C.stages;
    key_codes_full = codes_empty + C.stages, key_codes_empty = key_codes_full + C.stages;
    found = reinterpret_cast<uint32_t*>(slots + 2) + kBarriers * 2;
    asked = reinterpret_cast<Mbarrier*>(found + 4 * C.stages), searched = asked + C.stages;
    static_assert(2 * sizeof(Slot) + (kBarriers + (kSearchers ? 4 * C.stages : 0)) * 8 <= 640);
  }
  __device__ __forceinline__ void start() const {
    constexpr int kWarps = C.groups * 4;
    for (int s = 0; s < 2; ++s)
      slot_full[s].init(1), slot_empty[s].init(kWarps + (kCodes ? kWideners : 0));
    for (int s = 0; s < C.queries; ++s) q_full[s].init(1), q_empty[s].init(kWarps);
    for (int s = 0; s < C.stages; ++s) {
      k_full[s].init(kWideKeys ? kWideners * 32 : 1), v_full[s].init(kCodes ? kWideners * 32 : 1);
      k_empty[s].init(kWideKeys ? kWarps * 32 : kWarps);
      v_empty[s].init(kCodes ? kWarps * 32 : kWarps);
      if constexpr (kSearchers) asked[s].init(1), searched[s].init(kWideners);
      if constexpr (kCodes) codes_full[s].init(1), codes_empty[s].init(kWideners);
      if constexpr (kWideKeys) key_codes_full[s].init(1), key_codes_empty[s].init(kWideners);
    }
    fence_mbarrier_init();
  }
};
/// Rows of one copy of keys: a page, or a block if a page holds several.
template <AttentionTraits S, AttentionWgmmaConfig C>
constexpr int kBoxRows = S.page == 0 || S.page > C.keys ? C.keys : S.page;

/// The number of keys of paged sequence n.
template <AttentionTraits S>
__device__ __forceinline__ int32_t paged_keys(const AttentionPages& pages, int32_t n) {
  if (n < 0 || n >= pages.sequences) return 0;
  int64_t entries = pages.entries;
  if (pages.indptr)
    entries = min(entries, int64_t{offset_at(pages.indptr, (n + 1) * pages.indptr_at)} -
                               offset_at(pages.indptr, n * pages.indptr_at));
  const int64_t most = min(max(entries, int64_t{0}) * S.page, int64_t{0x7fffffff});
  const int64_t length = offset_at(pages.lengths, n * pages.lengths_at);
  return static_cast<int32_t>(min(most, max(length, int64_t{0})));
}
/// The offset in the table of the first page of sequence n.
__device__ __forceinline__ int64_t first_page(const AttentionPages& pages, int32_t n) {
  const int64_t row = n * pages.table_at[0];
  if (!pages.indptr) return row;
  return row + offset_at(pages.indptr, n * pages.indptr_at) * pages.table_at[1];
}

__device__ __forceinline__ void release(Mbarrier& empty) {
  if (threadIdx.x % 32 == 0) empty.arrive();
}
/// Releases a stage of V or K. If warps access it instead of the copy engine, each thread arrives
/// for its own reads or writes: racecheck does not follow a warp's lanes to one that arrives for
/// all.
template <bool kCodes>
__device__ __forceinline__ void release_values(Mbarrier& of) {
  if constexpr (kCodes)
    of.arrive();
  else
    release(of);
}

}  // namespace dlblas::attention::wgmma_detail
