// The producer warps of attention_wgmma: one thread, or a warp where keys are in pages, copies
// blocks of Q, K and V and announces each tile; three more warps widen blocks of f8, or search V.
// In: AttentionWgmmaParams. Out: full stages of the rings in shared memory, slots. Read next:
// attention_wgmma_shared.cuh (the rings), attention_widen.cuh.
#pragma once

#include "ops/attention/cuda/attention_finite.cuh"
#include "ops/attention/cuda/attention_wgmma_shared.cuh"

namespace dlblas::attention::wgmma_detail {

__device__ __forceinline__ void load_box(void* to, const TensorMap& map, Mbarrier& full,
                                         int32_t column, int32_t row, int32_t head, int32_t batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(&full)), "r"(column), "r"(row), "r"(head), "r"(batch)
      : "memory");
}

/// Asked of the searching warps at the end, instead of where a block of V is: its stage and, in the
/// high half, the parity of its phase.
constexpr uint32_t kNothingToSearch = 0xffffffffu;

/// The copying thread; for pages the copying warp, whose lanes each look up and copy a page. Order
/// for a tile: its slot, K(last), Q, then K one block ahead of V; f8 V, which is widened first,
/// comes with its K.
template <AttentionTraits S, AttentionWgmmaConfig C>
__device__ __forceinline__ void produce(const AttentionWgmmaParams& g, const Shared<S, C>& shared) {
  using Tiles = Shared<S, C>;
  constexpr bool kPaged = S.page > 0;
  constexpr int kBox = kBoxRows<S, C>, kLanes = kPaged ? kWarp : 1;
  static_assert(!kPaged || (C.keys % kBox == 0 && S.page % kBox == 0));
  using Head = typename Tiles::Head;
  const int32_t lane = kPaged ? static_cast<int32_t>(threadIdx.x % kWarp) : 0;
  RingPlace<C.stages> k_at, v_at;
  uint32_t questions = 0;
  RingPlace<C.queries> q_at;
  RingPlace<2> slot;
  // Called once V of the block has a stage: the block that had it before, and so the one whose
  // question had this place, is done.
  const auto ask = [&](uint32_t where) {
    if (lane == 0) {
      shared.found[questions * 4 + 3] = where;
      shared.asked[questions].arrive();
    }
    questions = questions + 1 == C.stages ? 0 : questions + 1;
  };
  const auto tell = [&](const Tile& t, const Blocks& all) {
    if (lane == 0) {  // alone: a lane that came late would find the next phase
      shared.slot_empty[slot.stage].wait(slot.parity ^ 1);
      Slot& to = shared.slots[slot.stage];
      to.all = all, to.tile = t;
#pragma unroll 1
      for (int i = 0; i < (Tiles::kSpare ? C.groups : 0); ++i) {
        const Blocks own = blocks_of<C>(g.p, t, i * 64, 64);
        const bool some = t.first + i * 64 < t.q_rows && own.first < own.end;
        to.own[i] = {all.first, some ? own.end : all.first, own.clean_from, own.clean_to};
      }
      shared.slot_full[slot.stage].arrive();
    }
    slot.advance();
  };
  const auto bring = [&](uint32_t index) {
    Tile t = tile_at<S.packed_sequences, rows_of(C), false, kTogether<S>>(g.p, index);
    if (t.empty(g.p)) return;
    if constexpr (kPaged) t.k_from = 0, t.k_rows = paged_keys<S>(g.pages, t.batch - 1);
    Blocks b = blocks_of<C>(g.p, t);
    // Keys past the last one are zeros: nothing to search for where rows see all others.
    if (!S.packed_sequences && visible(g.p, t, t.first).end >= t.k_rows) b.clean_to = b.end;
    if constexpr (S.packed_sequences) b = uniform(b, kLanes == 1 ? 1u : ~0u);
    tell(t, b);
    if (b.first >= b.end) return;
    const int32_t batch = S.packed_sequences ? 0 : t.batch, kv_head = t.head / g.p.group;
    int64_t entry = 0;
    if constexpr (kPaged) entry = first_page(g.pages, t.batch - 1);
    // `tiles`: Panels of what is copied.
    const auto load = [&]<typename Of>(Of tiles, const TensorMap& map, unsigned char* ring,
                                       Mbarrier* full, Mbarrier* empty, RingPlace<C.stages>& at,
                                       int32_t n) {
      constexpr int kColumns = Of::kCount, kBoxes = C.keys / kBox * kColumns;
      constexpr int kOfLane = (kBoxes + kLanes - 1) / kLanes, kCopied = C.keys * Of::kBytes;
      // As many pages as registers hold are looked up together, the first before there is room.
      constexpr int kAhead = kOfLane > 10 ? (kOfLane + 1) / 2 : kOfLane;
      [[maybe_unused]] int32_t pages[kAhead];
      [[maybe_unused]] const auto look_up = [&](int from) {
        // Keys past the last one have no entry: page −1, for which the copy engine writes zeros.
        if constexpr (kPaged) {
#pragma unroll
          for (int i = 0; i < kAhead; ++i) {
            const int32_t key = n * C.keys + ((from + i) * kLanes + lane) / kColumns * kBox;
            pages[i] = key < t.k_rows
                           ? offset_at(g.pages.table, entry + key / S.page * g.pages.table_at[1])
                           : -1;
          }
        }
      };
      look_up(0);
      empty[at.stage].wait(at.parity ^ 1);
      if (lane == 0) full[at.stage].arrive_expect_tx(kCopied);
      if constexpr (kPaged) __syncwarp();
      unsigned char* to = ring + at.stage * kCopied;
      if constexpr (kPaged) {
#pragma unroll 1
        for (int from = 0; from < kOfLane; from += kAhead) {
          if (from > 0) look_up(from);
#pragma unroll
          for (int i = 0; i < kAhead; ++i) {
            const int32_t box = (from + i) * kLanes + lane, c = box % kColumns;
            const int32_t row = box / kColumns * kBox;
            if (kBoxes % (kLanes * kAhead) == 0 || box < kBoxes)
              load_box(to + (c * C.keys + row) * Of::kRow, map, full[at.stage], c * Of::kElements,
                       (n * C.keys + row) % S.page, kv_head, pages[i]);
          }
        }
      } else {
#pragma unroll
        for (int c = 0; c < kColumns; ++c)
          load_box(to + c * C.keys * Of::kRow, map, full[at.stage], c * Of::kElements,
                   t.k_from + n * C.keys, kv_head, batch);
      }
      at.advance();
    };
    const auto load_k = [&](int32_t n) {
      constexpr typename Tiles::CopiedKeys kTiles;
      if constexpr (Tiles::kWideKeys)
        load(kTiles, g.k, shared.key_codes, shared.key_codes_full, shared.key_codes_empty, k_at, n);
      else
        load(kTiles, g.k, shared.k, shared.k_full, shared.k_empty, k_at, n);
    };
    const auto load_v = [&](int32_t n) {
      constexpr typename Tiles::CopiedValues kTiles;
      if constexpr (Tiles::kCodes)
        load(kTiles, g.v, shared.codes, shared.codes_full, shared.codes_empty, v_at, n);
      else {
        const uint32_t where = v_at.stage | v_at.parity << 16;
        load(kTiles, g.v, shared.v, shared.v_full, shared.v_empty, v_at, n);
        if constexpr (Tiles::kSearchers)
          if (!b.clean(n)) ask(where);
      }
    };
    load_k(b.end - 1);
    if (lane == 0) {
      shared.q_empty[q_at.stage].wait(q_at.parity ^ 1);
      shared.q_full[q_at.stage].arrive_expect_tx(Tiles::kQuery);
#pragma unroll
      for (int c = 0; c < Head::kCount; ++c)
        load_box(shared.q + q_at.stage * Tiles::kQuery + c * rows_of(C) * Head::kRow, g.q,
                 shared.q_full[q_at.stage], c * Head::kElements, t.q_from + t.first, t.head, batch);
    }
    q_at.advance();
    if constexpr (Tiles::kCodes) load_v(b.end - 1);
#pragma unroll 1
    for (int32_t n = b.end - 2; n >= b.first; --n) {
      load_k(n);
      load_v(Tiles::kCodes ? n : n + 1);
    }
    if constexpr (!Tiles::kCodes) load_v(b.first);
  };
  const auto end = [&] {
    tell({}, {-1, -1, 0, 0});
    if constexpr (Tiles::kSearchers) {
      shared.v_empty[v_at.stage].wait(v_at.parity ^ 1);  // as for a block: see ask
      ask(kNothingToSearch);
    }
  };
  const uint32_t all = static_cast<uint32_t>(g.p.grid);
  if constexpr (C.draws) {
#pragma unroll 1
    for (uint32_t index = blockIdx.x; index < all;) {
      bring(index);
      if (lane == 0) index = gridDim.x + atomicAdd(g.drawn, 1);
      if constexpr (kPaged) index = __shfl_sync(0xffffffffu, index, 0);
      index = __reduce_min_sync(kLanes == 1 ? 1u : 0xffffffffu, index);
    }
    end();
    return;
  }
  // The heaviest tiles come first. Every other round runs backwards, so that each block has the
  // same work: over all tiles, or over those of some heads after the others.
  uint32_t share = all;
  if constexpr (kTogether<S>)
    if (g.p.apart) share = static_cast<uint32_t>(g.p.tiles * g.p.together);
  bool back = false;
#pragma unroll 1
  for (uint32_t begin = 0; begin < all; begin = kTogether<S> ? begin + share : all) {
    const uint32_t end = min(begin + share, all);
#pragma unroll 1
    for (uint32_t round = begin; round < end; round += gridDim.x, back = !back) {
      const uint32_t index = round + (back ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
      if (index < end) bring(kPaged ? __reduce_min_sync(0xffffffffu, index) : index);
    }
  }
  end();
}

/// The widening warps: convert blocks of V, and for pages of f8 also of K, to 16 bits as they
/// arrive.
template <AttentionTraits S, AttentionWgmmaConfig C>
__device__ __forceinline__ void widen(const AttentionParams& p, const Shared<S, C>& shared) {
  using Tiles = Shared<S, C>;
  const int32_t warp = static_cast<int32_t>(threadIdx.x) / 32 - 1;
  RingPlace<C.stages> at;
  RingPlace<2> slot;
#pragma unroll 1
  while (true) {
    shared.slot_full[slot.stage].wait(slot.parity);
    const Slot& now = shared.slots[slot.stage];
    const Blocks b = now.all;
    if (b.first < 0) return;
    __syncwarp();
    release(shared.slot_empty[slot.stage]);
    slot.advance();
#pragma unroll 1
    for (int32_t n = b.first; n < b.end; ++n, at.advance()) {
      const auto one = [&]<typename From, typename To>(
                           From, To, unsigned char* codes, unsigned char* to, Mbarrier& there,
                           Mbarrier& taken, Mbarrier& free, Mbarrier& made) {
        there.wait(at.parity);
        free.wait(at.parity ^ 1);
        widen_tile<S, C, From, To>(shared_address(codes + at.stage * C.keys * From::kBytes),
                                   shared_address(to + at.stage * C.keys * To::kBytes), warp);
        fence_async_shared();
        __syncwarp();
        release(taken);
        release_values<true>(made);
      };
      const int i = at.stage;
      if constexpr (Tiles::kWideKeys)
        one(typename Tiles::CopiedKeys{}, typename Tiles::Head{}, shared.key_codes, shared.k,
            shared.key_codes_full[i], shared.key_codes_empty[i], shared.k_empty[i],
            shared.k_full[i]);
      one(typename Tiles::CopiedValues{}, typename Tiles::Values{}, shared.codes, shared.v,
          shared.codes_full[i], shared.codes_empty[i], shared.v_empty[i], shared.v_full[i]);
    }
  }
}

/// The searching warps, where none has to widen: tell whether blocks of V that the copying warp
/// asks about have values that are not finite.
template <AttentionTraits S, AttentionWgmmaConfig C>
__device__ __forceinline__ void search(const Shared<S, C>& shared) {
  constexpr int kValues = Shared<S, C>::kValues, kStep = kWideners * 32 * 16;
  const int32_t warp = static_cast<int32_t>(threadIdx.x) / 32 - 1;
#pragma unroll 1
  for (RingPlace<C.stages> at;; at.advance()) {
    shared.asked[at.stage].wait(at.parity);
    const uint32_t where = load_shared_word(shared_address(shared.found) + at.stage * 16 + 12);
    if (where == kNothingToSearch) return;
    const uint32_t stage = where & 0xffff;
    shared.v_full[stage].wait(where >> 16);
    const uint32_t from = shared_address(shared.v) + stage * kValues;
    uint32_t met = 0;
#pragma unroll 2
    for (uint32_t i = (threadIdx.x - 32) * 16; i < kValues; i += kStep) {
      uint32_t words[4];
      load_shared(words, from + i);
#pragma unroll
      for (const uint32_t w : words) meet_finite<S.type>(met, w);
    }
    const bool any = __any_sync(0xffffffffu, not_finite<S.type>(met));
    if (threadIdx.x % 32 == 0) {
      shared.found[at.stage * 4 + warp] = any;
      shared.searched[at.stage].arrive();
    }
  }
}

}  // namespace dlblas::attention::wgmma_detail
