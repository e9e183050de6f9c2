// Attention by Hopper's WGMMA: f16, bf16 and f8, heads of up to 256 columns, those of v of another
// width, rows at multiples of 16 bytes. Shared memory holds heads in panels of 64 columns, the last
// one filled up with zeros; products end with the head. A bias is read from memory while scores are
// turned into weights. A block processes tiles of 128, 192 or 256 rows of a head: two to four
// consumer warpgroups multiply, 64 rows each, and one thread copies through ring buffers of Q, K
// and V and announces each tile; for paged keys a whole warp copies, and looks the pages up. Blocks
// take tiles in a fixed order, or draw the next free one (`draws`). Blocks of keys are processed
// last to first, from the last that a warpgroup's own rows see: the scores of one overlap P·V of
// the one before. If some row sees only part of a block, its V is searched for values that are not
// finite, as in attention_mma.cuh, by three warps next to the copying one, while scores are
// computed. With q, k and v in f8, scores are products of f8. The three warps then widen V to f16,
// exactly: weights keep 11 bits, and V needs no transposition, which products of f8 would require.
// For pages of f8 they widen K and V to q's type. With rotation tables (S.rotary), each warpgroup
// rotates its rows of a tile of Q once, in shared memory, on arrival; K comes rotated. In:
// AttentionWgmmaParams. Out: o and lse. Numerics: as attention_mma.cuh, except that f8 scores
// accumulate with 13 bits below the largest. Deterministic. Flow: call > validate > select >
// compile > [launch]. Read next: attention_wgmma_softmax.cuh,
// attention_tile.cuh, attention_widen.cuh, attention_rotary.cuh, device/wgmma.cuh.
#pragma once

#include "device/pdl.cuh"
#include "device/wgmma.cuh"
#include "device/wgmma_f8.cuh"
#include "ops/attention/cuda/attention_finite.cuh"
#include "ops/attention/cuda/attention_wgmma_copy.cuh"
#include "ops/attention/cuda/attention_wgmma_softmax.cuh"
#include "ops/attention/rotary/attention_rotary.cuh"

namespace dlblas::attention {

namespace wgmma_detail {

template <AttentionTraits S, AttentionWgmmaConfig C>
struct Consumer : ScoreRows<S, C> {
  using Scores = ScoreRows<S, C>;
  using typename Scores::Bias, Scores::p, Scores::shared, Scores::column, Scores::part,
      Scores::slot, Scores::scale, Scores::factor, Scores::most, Scores::sum, Scores::own,
      Scores::sight, Scores::bring_bias, Scores::factor_of_scores, Scores::accepts, Scores::weigh,
      Scores::rescale_sums, Scores::hold;
  static constexpr WgmmaInput kInput =
      S.type == DType::kBF16 ? WgmmaInput::kBF16 : WgmmaInput::kF16;
  using Tiles = Shared<S, C>;
  static constexpr int kN = C.keys, kD = S.d, kDv = S.dv;
  static constexpr int kBlock = Tiles::kBlock, kValues = Tiles::kValues;

  const AttentionPages& pages;
  int32_t group;
  RingPlace<C.stages> k_at, v_at, found_at;
  RingPlace<C.queries> q_at;

  __device__ __forceinline__ void scores(float (&s)[kN / 2]) {
    constexpr int kRow = Tiles::Head::kRow;
    const uint64_t rows =
        wgmma_tile_rows<kRow>(shared.q + part * 64 * kRow + q_at.stage * Tiles::kQuery);
    const uint64_t block = wgmma_tile_rows<kRow>(shared.k + k_at.stage * kBlock);
    if constexpr (Tiles::kF8) {
#pragma unroll
      for (int i = 0; i < kD; i += 64)
        wgmma_f8<S.from>(s, wgmma_advance(rows, i / kRow * rows_of(C) * kRow + i % kRow),
                         wgmma_advance(block, i / kRow * kN * kRow + i % kRow), i > 0);
    } else {
#pragma unroll
      for (int c = 0; c < kD / 64; ++c)
        wgmma_row<kN, kInput>(s, wgmma_advance(rows, c * rows_of(C) * 128),
                              wgmma_advance(block, c * kN * 128), c > 0);
#pragma unroll
      for (int i = kD / 64 * 64; i < kD; i += 16)
        wgmma<kN, kInput>(s, wgmma_advance(rows, i / 64 * rows_of(C) * 128 + i % 64 * 2),
                          wgmma_advance(block, i / 64 * kN * 128 + i % 64 * 2), i > 0);
    }
    wgmma_commit();
  }
  __device__ __forceinline__ void values(float (&o)[kDv / 2], const uint32_t (&a)[kN / 4]) {
    const uint64_t block = wgmma_tile_mn(shared.v + v_at.stage * kValues, kN * 128);
#pragma unroll
    for (int i = 0; i < kN / 16; ++i)
      wgmma_from_registers<kDv, kInput>(o, a + 4 * i, wgmma_advance(block, i * 2048));
    wgmma_commit();
  }
  __device__ __forceinline__ void pack(uint32_t (&a)[kN / 4], const float (&s)[kN / 2]) {
#pragma unroll
    for (int i = 0; i < kN / 4; ++i) a[i] = pack_pair<S.type>(s[2 * i], s[2 * i + 1]);
  }

  /// Waits for Q of the tile, and rotates this warpgroup's rows of it.
  __device__ __forceinline__ void receive_queries() const {
    shared.q_full[q_at.stage].wait(q_at.parity);
    if constexpr (S.rotary) {
      const Tile& t = shared.slots[slot.stage].tile;
      const uint32_t tile = shared_address(shared.q) + q_at.stage * Tiles::kQuery;
#pragma unroll 2
      for (int i = static_cast<int>(threadIdx.x) % 128; i < 64 * kD / 16; i += 128) {
        const int32_t row = part * 64 + i / (kD / 16), column = i % (kD / 16) * 8;
        const auto place = [&](int32_t at) {
          return tile + at / 64 * rows_of(C) * 128 + swizzle_128(row * 128 + at % 64 * 2);
        };
        uint32_t low[4], high[4];
        load_shared(low, place(column)), load_shared(high, place(column + kD / 2));
        const TableRow tables = table_row(p, t.batch, min(t.first + row, t.q_rows - 1));
        turn_eight<S>(p, tables, column, low, high);
        store_shared(place(column), low), store_shared(place(column + kD / 2), high);
      }
      fence_async_shared();
      barrier_wait<128>(group + 2);
    }
  }

  /// The address of eight values of V.
  __device__ __forceinline__ uint32_t eight(int32_t key, int32_t at) const {
    const uint32_t tile = shared_address(shared.v) + v_at.stage * kValues + at / 64 * kN * 128;
    return tile + swizzle_128(key * 128 + at % 64 * 2);
  }
  /// Whether the block of V has values that are not finite, the same for all warpgroups. Called
  /// once for each block of which some row of the tile sees only part.
  __device__ __forceinline__ bool finds() {
    int32_t found;
    if constexpr (!Tiles::kSearchers) {
      shared.v_full[v_at.stage].wait(v_at.parity);
      const uint32_t thread = threadIdx.x % 128;
      const uint32_t from = shared_address(shared.v) + v_at.stage * kValues + thread * 16;
      uint32_t met = 0;
#pragma unroll 2
      for (int i = 0; i < kValues; i += 128 * 16) {
        uint32_t words[4];
        load_shared(words, from + i);
#pragma unroll
        for (const uint32_t w : words) meet_finite<S.type>(met, w);
      }
      found = group_any(group, not_finite<S.type>(met));
    } else {
      shared.searched[found_at.stage].wait(found_at.parity);
      uint32_t words[4];
      load_shared(words, shared_address(shared.found) + found_at.stage * 16);
      found = static_cast<int32_t>(words[0] | words[1] | words[2]);
      found_at.advance();
    }
    return uniform(found) != 0;
  }
  /// Zeroes these values, once all warpgroups have used them.
  __device__ __forceinline__ void zero() const {
    constexpr int kEights = kDv / 8, kThreads = C.groups * 128;
    barrier_wait<kThreads>(1);
#pragma unroll 1
    for (int i = group * 128 + static_cast<int>(threadIdx.x) % 128; i < kN * kEights;
         i += kThreads) {
      uint32_t words[4];
      const uint32_t place = eight(i / kEights, i % kEights * 8);
      load_shared(words, place);
#pragma unroll
      for (uint32_t& w : words) w = finite_part<S.type>(w);
      store_shared(place, words);
    }
    fence_async_shared();
    barrier_wait<kThreads>(1);
  }
  /// Adds values of V that are not finite to o separately, and zeroes them in the block.
  __device__ __forceinline__ void take_out(float (&o)[kDv / 2], int32_t n) {
    if (!finds()) [[likely]]
      return;
    const KeyRange seen[2] = {sight(0), sight(1)};
#pragma unroll 1
    for (int key = 0; key < kN; ++key) {
      const int32_t at = n * kN + key;
      // Opaque: the compiler would keep an address for each i.
      uint32_t row = shared_address(shared.v + v_at.stage * kValues) + key * 128 + column * 2;
      uint32_t chunk = key & 7;
      asm volatile("" : "+r"(row), "+r"(chunk));
#pragma unroll
      for (int i = 0; i < kDv / 8; ++i) {
        const uint32_t w = load_shared_word(row + i / 8 * kN * 128 + ((i % 8 ^ chunk) << 4));
        if (w == finite_part<S.type>(w)) continue;
        const FloatPair x = unpack_pair<S.type>(w ^ finite_part<S.type>(w));
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const bool there = at >= seen[r].first && at < seen[r].end;
          o[4 * i + 2 * r] += there ? x.low : 0.0f;
          o[4 * i + 2 * r + 1] += there ? x.high : 0.0f;
        }
      }
    }
    zero();
  }

  /// Waits for the slot. False: there is no further tile.
  __device__ __forceinline__ bool told(Blocks& all, Blocks& mine) {
    // Late rows see more keys than early ones: warpgroups take them in turn.
    const bool back = C.groups > 2 && (slot.stage & 1) != 0;
    part = uniform(back ? C.groups - 1 - group : group);
    shared.slot_full[slot.stage].wait(slot.parity);
    const Slot& at = shared.slots[slot.stage];
    all = uniform(at.all), mine = Tiles::kSpare ? uniform(at.own[part]) : all;
    return all.first >= 0;
  }
  /// Prepares for the first block of the tile; `sees`: there is one.
  __device__ __forceinline__ void reset(bool sees) {
#pragma unroll
    for (int r = 0; r < 2; ++r) most[r] = minus_infinity(), sum[r] = 0;
    if constexpr (Tiles::kF8) {
      const Tile& t = shared.slots[slot.stage].tile;
      if (sees) scale = scale_of<S>(p, t, t.head / p.group);
      factor = factor_of_scores();
    }
  }

  /// Issues the scores of the next block and P·V of block n; on return the scores are ready, and
  /// P·V is in flight. `next_clean`: of this warpgroup's rows.
  __device__ __forceinline__ void ask(float (&s)[kN / 2], float (&o)[kDv / 2],
                                      const uint32_t (&a)[kN / 4], Bias& bias, int32_t n,
                                      bool clean, bool next_clean) {
    if (C.turns && !clean) take_out(o, n);  // all groups meet there: none waits for its turn
    shared.k_full[k_at.stage].wait(k_at.parity);
    if constexpr (C.turns) barrier_wait<256>(group + 5);
    wgmma_fence();
    scores(s);
    if (!C.turns && !clean) take_out(o, n);
    shared.v_full[v_at.stage].wait(v_at.parity);
    wgmma_fence();
    values(o, a);
    if constexpr (C.turns) barrier_arrive<256>(group + 1 == C.groups ? 5 : group + 6);
    bring_bias(bias, n - 1, next_clean);
    wgmma_wait<1>();
    wgmma_pin(s);
    leave_keys();
  }
  __device__ __forceinline__ void leave_keys() {
    release_values<Tiles::kWideKeys>(shared.k_empty[k_at.stage]);
    k_at.advance();
  }
  __device__ __forceinline__ void leave_queries() {
    release(shared.q_empty[q_at.stage]);
    q_at.advance();
  }
  __device__ __forceinline__ void finish(float (&o)[kDv / 2]) {
    wgmma_wait<0>();
    wgmma_pin(o);
    leave_values();
  }
  __device__ __forceinline__ void leave_values() {
    release_values<Tiles::kCodes>(shared.v_empty[v_at.stage]);
    v_at.advance();
  }
  /// Passes blocks [from, all.end), of which this warpgroup's rows see no key.
  __device__ __forceinline__ void skip(int32_t from, const Blocks& all) {
#pragma unroll 1
    for (int32_t n = all.end - 1; n >= from; --n) {
      shared.k_full[k_at.stage].wait(k_at.parity);
      leave_keys();
      if (!all.clean(n))
        if (finds()) zero();
      if (C.turns && n > all.first) {
        barrier_wait<256>(group + 5);
        barrier_arrive<256>(group + 1 == C.groups ? 5 : group + 6);
      }
      shared.v_full[v_at.stage].wait(v_at.parity);
      leave_values();
    }
  }

  /// Words of numerators that are computed while P·V is in flight, beside those that it reads: as
  /// many as registers have room for. The wait for P·V takes a seventh of a block's time.
  static constexpr int kEarly = [] {
    constexpr int kBias = in_pairs(S.bias_in) ? kN / 8 * (of_one_row(S.bias_in) ? 1 : 2) : 0;
    constexpr int kHeld = kN * 3 / 4 + kDv / 2 + kBias * size_of(S.bias) / 2;
    constexpr int kRoom = (Tiles::kCodes ? 188 : S.page > 0 || C.draws ? 196 : 204) - kHeld;
    if (C.groups > 2 || kRoom <= 0) return 0;
    return (kRoom < kN / 8 ? kRoom : kN / 8) / 2 * 2;
  }();
  /// Issues the scores of block n − 1 and P·V of block n, and turns the former into numerators.
  /// kClean: this warpgroup's rows see all keys of block n − 1.
  template <bool kClean>
  __device__ __forceinline__ void advance(float (&s)[kN / 2], float (&o)[kDv / 2],
                                          uint32_t (&a)[kN / 4], Bias& bias, int32_t& n,
                                          const Blocks& all, const Blocks& mine) {
    ask(s, o, a, bias, n, all.clean(n), kClean || mine.clean(n - 1));
    --n;
    if (C.queries == 1 && n == mine.first) leave_queries();
    const bool clean = kClean || mine.clean(n);
    this->template score<kClean>(s, bias, n, mine);
    uint32_t early[kEarly > 0 ? kEarly : 1];
    float sums[2][2] = {{0, 0}, {0, 0}};
    if constexpr (kEarly > 0) {
      if (clean) {
        this->template numerators<0>(s, early, sums);
        hold(sums[0][0] + sums[0][1] + sums[1][0] + sums[1][1]);
      }
    }
    finish(o);
    wgmma_pin(s);  // P·V read registers that what follows may take
    bool done = false;
    if (clean) {
      uint32_t late[kN / 4 - kEarly];
      this->template numerators<kEarly>(s, late, sums);
      // Copies that the compiler must not leave out: it would compute `early` where P·V reads `a`.
#pragma unroll
      for (int i = 0; i < kEarly; ++i) asm volatile("mov.b32 %0, %1;" : "=r"(a[i]) : "r"(early[i]));
#pragma unroll
      for (int i = kEarly; i < kN / 4; ++i) a[i] = late[i - kEarly];
      done = accepts(sums);
    }
    if (!done) {
      weigh(s);
      rescale_sums(o);
      pack(a, s);
    }
  }

  /// Processes all tiles.
  __device__ __forceinline__ void walk() {
    float s[kN / 2], o[kDv / 2];
    uint32_t a[kN / 4];
    Bias bias;
    Blocks all, mine;
#pragma unroll 1
    while (told(all, mine)) {
#pragma unroll
      for (float& x : o) x = 0;
      reset(all.first < all.end);
      Row rows[2];
      skip(mine.end, all);
      if (mine.first < mine.end) {
        int32_t n = mine.end - 1;
        receive_queries();
        shared.k_full[k_at.stage].wait(k_at.parity);
        wgmma_fence();
        scores(s);
        bring_bias(bias, n, mine.clean(n));
        wgmma_wait<0>();
        wgmma_pin(s);
        leave_keys();
        if (C.queries == 1 && n == mine.first) leave_queries();
        this->template score<false>(s, bias, n, mine);
        weigh(s);
        pack(a, s);
#pragma unroll 1
        while (n > mine.first) {
          if constexpr (S.bias != DType::kAbsent) {  // whose loads differ
#pragma unroll 1
            while (n > mine.first && mine.clean(n - 1)) advance<true>(s, o, a, bias, n, all, mine);
            if (n > mine.first) advance<false>(s, o, a, bias, n, all, mine);
          } else {
            advance<false>(s, o, a, bias, n, all, mine);
          }
        }
        if (C.queries > 1) leave_queries();
        if (!all.clean(n)) take_out(o, n);
        shared.v_full[v_at.stage].wait(v_at.parity);
        wgmma_fence();
        values(o, a);
        end_rows(rows);
        finish(o);
      } else {
        if (all.first < all.end) {
          shared.q_full[q_at.stage].wait(q_at.parity);
          leave_queries();
        }
        end_rows(rows);
      }
      store(o, rows);
      __syncwarp();
      release(shared.slot_empty[slot.stage]);
      slot.advance();
    }
  }

  /// A row of o: where it goes, and the factor of its sums.
  struct Row {
    int64_t to;
    float inverse;
    bool there;
  };
  /// Determines this thread's rows, and stores the logarithms of their sums.
  __device__ __forceinline__ void end_rows(Row (&rows)[2]) const {
    const Tile t = shared.slots[slot.stage].tile;
    float total[2] = {sum[0], sum[1]};
#pragma unroll
    for (int lanes = 1; lanes <= 2; ++lanes)
#pragma unroll
      for (int r = 0; r < 2; ++r) total[r] += __shfl_xor_sync(0xffffffffu, total[r], lanes);
    const int32_t left = min(rows_of(C), t.q_rows - t.first);
    const int64_t batch = S.packed_sequences ? 0 : t.batch;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float all = total[r];
      float of_values = 1;
      if constexpr (Tiles::kF8)
        if (all != 0) of_values = descale_of(p, 2, t, t.head / p.group);
      float lse = all == 0 ? minus_infinity() : log2_of_sum(most[r], factor, log2f(all));
      if constexpr (S.page > 0) of_values = of_pages(t, lse);
      const int32_t row = own() + 8 * r;
      const int64_t at = t.q_from + static_cast<int64_t>(t.first) + row;
      rows[r].inverse = all == 0 ? 0.0f : of_values * DeviceMath::reciprocal(all);
      rows[r].to = batch * p.o_at[0] + at * p.o_at[1] + t.head * p.o_at[2];
      rows[r].there = row < left;
      if (row < left && threadIdx.x % 4 == 0) store_lse(p, t, t.head, at, lse * 0.693147181f);
    }
  }
  /// Stores this thread's two rows of o.
  __device__ __forceinline__ void store(const float (&o)[kDv / 2], const Row (&rows)[2]) const {
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % 4;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float inverse = rows[r].inverse;
      if constexpr (S.to == DType::kF32) {
        float* const out = static_cast<float*>(p.o) + rows[r].to + column;
#pragma unroll
        for (int i = 0; i < kDv / 8; ++i)
          if (rows[r].there)
            *reinterpret_cast<float2*>(out + i * 8) = {o[4 * i + 2 * r] * inverse,
                                                       o[4 * i + 2 * r + 1] * inverse};
      } else {
        uint16_t* const out = static_cast<uint16_t*>(p.o) + rows[r].to + lane * 8;
#pragma unroll
        for (int i = 0; i < kDv / 8; i += 4) {
          uint32_t words[4];
#pragma unroll
          for (int j = 0; j < 4; ++j)
            words[j] = i + j < kDv / 8 ? pack_pair<S.to>(o[4 * (i + j) + 2 * r] * inverse,
                                                         o[4 * (i + j) + 2 * r + 1] * inverse)
                                       : 0u;
          gather_quad(words);
          if (rows[r].there && (i + 4 <= kDv / 8 || i + lane < kDv / 8))
            *reinterpret_cast<uint4*>(out + i * 8) = {words[0], words[1], words[2], words[3]};
        }
      }
    }
  }
  /// The factor of values: v_scale, times the row's share of its sum with the sink, which is added
  /// to `lse` (in base 2).
  __device__ __forceinline__ float of_pages(const Tile& t, float& lse) const {
    const float factor = pages.v_scale ? float_at(pages.v_scale, 0) : 1.0f;
    if (!pages.sinks || t.batch == 0 || t.batch > pages.sequences) return factor;
    const float sink = float_at(pages.sinks, t.head * pages.sinks_at) * kLog2E;
    const float most = fmaxf(lse, sink);
    if (most == minus_infinity()) return factor;
    const float all = most + log2f(DeviceMath::exp2(lse - most) + DeviceMath::exp2(sink - most));
    const float share = DeviceMath::exp2(lse - all);
    lse = all;
    return factor * share;
  }
};

template <AttentionTraits S, AttentionWgmmaConfig C>
__device__ __forceinline__ void consume(const AttentionWgmmaParams& g, const Shared<S, C>& shared,
                                        int32_t group) {
  Consumer<S, C> c{{g.p, shared, static_cast<int32_t>(threadIdx.x) % 4 * 2}, g.pages, group};
  c.scale = g.p.scale;
  if constexpr (S.page > 0)
    if (g.pages.k_scale) c.scale *= float_at(g.pages.k_scale, 0);
  c.factor = c.factor_of_scores();
  if constexpr (C.turns)
    if (group == 0) barrier_arrive<256>(5);
  c.walk();
}

}  // namespace wgmma_detail

template <AttentionTraits S, AttentionWgmmaConfig C>
__global__ void __launch_bounds__(wgmma_detail::threads_of(C), 1)
    attention_wgmma(const __grid_constant__ AttentionWgmmaParams g) {
  using namespace wgmma_detail;
  static_assert(S.d % (is_f8(S.from) ? 64 : 16) == 0 && S.dv % 8 == 0 && C.keys % 16 == 0);
  static_assert(S.d <= 256 && S.dv <= 256);
  static_assert(C.groups >= 2 && C.groups <= 4 && (C.groups < 4 || !C.turns));
  extern __shared__ unsigned char raw[];
  const Shared<S, C> shared(raw);
  if (threadIdx.x == 0) {
    tma_prefetch_map(g.q), tma_prefetch_map(g.k), tma_prefetch_map(g.v);
    shared.start();
  }
  if constexpr (S.rotary) wait_for_dependencies();  // for the launch that rotates keys
  __syncthreads();
  const int32_t group = __shfl_sync(0xffffffffu, static_cast<int32_t>(threadIdx.x) / 128, 0);
  constexpr bool kCodes = Shared<S, C>::kCodes, kPaged = S.page > 0;
  // Registers of the copying warp; many where a head's three panels need them.
  constexpr bool kMore = kPaged || C.draws;
  constexpr bool kMany = kCodes || (kPaged && C.groups == 2 && Shared<S, C>::Head::kCount == 3);
  static_assert(!kPaged || (!is_f8(S.from) && S.packed_sequences));
  static_assert(!S.rotary || (!kPaged && !is_f8(S.from) && !S.packed_sequences));
  if (group == 0) {
    release_registers<(C.groups > 2) ? 32 : kMany ? 56 : kMore ? 40 : 24>();
    if (__shfl_sync(0xffffffffu, static_cast<int32_t>(threadIdx.x) / kWarp, 0) > 0) {
      if constexpr (kCodes)
        widen<S, C>(g.p, shared);
      else if constexpr (Shared<S, C>::kSearchers)
        search<S, C>(shared);
      return;
    }
    if (threadIdx.x < (kPaged ? kWarp : 1)) produce<S, C>(g, shared);
  } else {
    take_registers<C.groups == 4 ? 112 : C.groups == 3 ? 160 : kMany ? 224 : kMore ? 232 : 240>();
    consume<S, C>(g, shared, group - 1);
  }
}

}  // namespace dlblas::attention
