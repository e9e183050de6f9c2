// Attention's gradient by Hopper's WGMMA: f16 and bf16, heads of 64 or 128, rows at multiples of 16
// bytes. A block holds 128 keys of a head of k, 64 for each of its two consumer warpgroups, and
// iterates over tiles of queries, last to first, of each head of q that shares this head of k. Per
// tile, the consumers compute Sᵀ = K·Qᵀ and dPᵀ = V·dOᵀ, keep Pᵀ in registers for dV += Pᵀ·dO, and
// store dSᵀ in shared memory for dK += dSᵀ·Q and dQ = dS·K. A copying thread adds dQ to f32 sums in
// global memory. Blocks of keys take turns at a tile's sums, in the order of keys, so the bits are
// always the same. The wait for a turn overlaps the products, and depends only on blocks launched
// earlier, so the turn always comes. Heads are processed in groups of C.heads: concurrent blocks
// share tiles, which then hit L2.
// The copies fill rows past the end of a sequence with zeros, so their contents have no effect.
// In: AttentionGradientWgmmaParams. Out: dk, dv, and the sums of dq. Numerics: as
// attention_gradient_mma.cuh. Flow: call > validate > select > compile > [launch].
// Read next: attention_gradient_ends.cuh, attention_wgmma.cuh, device/wgmma.cuh.
#pragma once

#include "device/shared.cuh"
#include "device/tma.cuh"
#include "device/wgmma.cuh"
#include "ops/attention/gradient/attention_gradient_ends.cuh"

namespace dlblas::attention {

namespace gradient_wgmma {

inline constexpr int kConsumerWarps = 8, kThreads = kConsumerWarps * 32 + 128;

/// Tiles of queries for a block of keys: [begin, end), of which [from, to) need no mask; `rows`:
/// how many of its 128 keys exist.
struct Met {
  int32_t begin, end, from, to, rows;
};

template <AttentionTraits S, AttentionGradientWgmmaConfig C>
struct Shared {
  static constexpr int kOwnRows = kKeys * S.d * 2, kMet = kQueries * S.d * 2;
  static constexpr int kFacts = kQueries * 4, kSums = kQueries * S.d * 4;
  unsigned char *k, *v, *q, *dout;  // each tile: d / 64 columns of rows of 128 bytes
  unsigned char* ds;                // dSᵀ: columns of 64 queries, a row of 128 bytes for each key
  unsigned char* sums;
  float *lse, *delta;
  Mbarrier *k_full, *v_full, *ds_empty, *q_full, *q_empty, *dout_full, *dout_empty;
  Mbarrier *sums_full, *sums_empty;
  volatile Met* met;  // for a consumer, whose registers it would spill

  __device__ __forceinline__ explicit Shared(unsigned char* raw) {
    k = raw + (1024 - shared_address(raw) % 1024) % 1024;
    v = k + kOwnRows;
    q = v + kOwnRows;
    dout = q + C.stages * kMet;
    ds = dout + C.stages * kMet;
    sums = ds + kKeys * kQueries * 2;
    lse = reinterpret_cast<float*>(sums + C.sums * kSums);
    delta = lse + C.stages * kQueries;
    k_full = reinterpret_cast<Mbarrier*>(delta + C.stages * kQueries);
    v_full = k_full + 1, ds_empty = v_full + 1;
    q_full = ds_empty + 1, q_empty = q_full + C.stages;
    dout_full = q_empty + C.stages, dout_empty = dout_full + C.stages;
    sums_full = dout_empty + C.stages, sums_empty = sums_full + C.sums;
    met = reinterpret_cast<volatile Met*>(sums_empty + C.sums);
  }
  __device__ __forceinline__ void start(const Met& of_block) const {
    met->begin = of_block.begin, met->end = of_block.end, met->from = of_block.from;
    met->to = of_block.to, met->rows = of_block.rows;
    k_full->init(1), v_full->init(1), ds_empty->init(kConsumerWarps);
    for (int s = 0; s < C.stages; ++s) {
      q_full[s].init(1), dout_full[s].init(1);
      q_empty[s].init(kConsumerWarps), dout_empty[s].init(kConsumerWarps);
    }
    for (int s = 0; s < C.sums; ++s) sums_full[s].init(kConsumerWarps), sums_empty[s].init(1);
    fence_mbarrier_init();
  }
};

/// Coordinates for the copy engine of a tile of kRows rows from `first` on. Packed: the map's rows
/// end after kRows, and its last dimension shifts them by one row at a time, starting kRows before
/// the tensor; rows past the sequence are then out of bounds and arrive as zeros.
struct Box {
  int32_t row, batch;
};
template <bool kPacked, int kRows>
__device__ __forceinline__ Box tile_box(int32_t batch, int32_t from, int32_t rows, int32_t first) {
  if constexpr (!kPacked) return {first, batch};
  const int32_t there = min(kRows, rows - first);
  return {kRows - there, from + first + there};
}
template <int kRows, int kColumns>
__device__ __forceinline__ void load_tile_of(unsigned char* to, const TensorMap& map,
                                             Mbarrier& full, const Box& box, int32_t head) {
#pragma unroll
  for (int c = 0; c < kColumns / 64; ++c)
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared_address(to) + c * kRows * 128),
        "l"(&map), "r"(shared_address(&full)), "r"(c * 64), "r"(box.row), "r"(head), "r"(box.batch)
        : "memory");
}
__device__ __forceinline__ void load_facts(float* to, const float* from, uint32_t bytes,
                                           Mbarrier& full) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(&full))
      : "memory");
}

/// The thread that copies the block's keys and values.
template <AttentionTraits S, AttentionGradientWgmmaConfig C>
__device__ __forceinline__ void bring_own(const AttentionGradientWgmmaParams& g,
                                          const Shared<S, C>& shared, const Tile& t) {
  constexpr int kOwnRows = Shared<S, C>::kOwnRows;
  const Box own = tile_box<S.packed_sequences, kKeys>(t.batch, t.k_from, t.k_rows, t.first);
  shared.k_full->arrive_expect_tx(kOwnRows);
  load_tile_of<kKeys, S.d>(shared.k, g.k, *shared.k_full, own, t.head);
  shared.v_full->arrive_expect_tx(kOwnRows);
  load_tile_of<kKeys, S.d>(shared.v, g.v, *shared.v_full, own, t.head);
}

/// The thread that copies tiles of queries with their lse and delta.
template <AttentionTraits S, AttentionGradientWgmmaConfig C>
__device__ __forceinline__ void produce(const AttentionGradientWgmmaParams& g,
                                        const Shared<S, C>& shared, const Tile& t, const Met& met) {
  using Of = Shared<S, C>;
  RingPlace<C.stages> at;
#pragma unroll 1
  for (int32_t h = 0; h < g.g.p.group; ++h) {
    const int32_t head = t.head * g.g.p.group + h;
    const int64_t facts = query_tile<S>(g, t, head, 0) * kQueries;
#pragma unroll 1
    for (int32_t m = met.end - 1; m >= met.begin; --m, at.advance()) {
      const int32_t row = m * kQueries;
      const Box box = tile_box<S.packed_sequences, kQueries>(t.batch, t.q_from, t.q_rows, row);
      const auto load = [&](unsigned char* ring, const TensorMap& map, float* to, const float* from,
                            Mbarrier* full, Mbarrier* empty) {
        Mbarrier& barrier = full[at.stage];
        empty[at.stage].wait(at.parity ^ 1);
        barrier.arrive_expect_tx(Of::kMet + Of::kFacts);
        load_tile_of<kQueries, S.d>(ring + at.stage * Of::kMet, map, barrier, box, head);
        load_facts(to + at.stage * kQueries, from + facts + row, Of::kFacts, barrier);
      };
      load(shared.q, g.q, shared.lse, g.lse, shared.q_full, shared.q_empty);
      load(shared.dout, g.dout, shared.delta, g.g.delta, shared.dout_full, shared.dout_empty);
    }
  }
}

/// A thread that writes every C.sums-th tile of dq to memory, starting with tile `which`.
template <AttentionTraits S, AttentionGradientWgmmaConfig C>
__device__ __forceinline__ void add_sums(const AttentionGradientWgmmaParams& g,
                                         const Shared<S, C>& shared, const Tile& t, const Met& met,
                                         int32_t which) {
  constexpr int kSums = Shared<S, C>::kSums;
  const uint32_t from = shared_address(shared.sums) + which * kSums;
  Mbarrier *const full = shared.sums_full + which, *const empty = full + C.sums;
  const int32_t own = t.first / kKeys;
  uint32_t parity = 0;
#pragma unroll 1
  for (int32_t h = 0; h < g.g.p.group; ++h) {
    const int64_t tiles = query_tile<S>(g, t, t.head * g.g.p.group + h, 0);
#pragma unroll 1
    for (int32_t m = met.end - 1; m >= met.begin; --m) {
      if (which-- > 0) continue;
      which = C.sums - 1;
      float* const to = g.dq + (tiles + m) * kQueries * S.d;
      int32_t* const turn = g.turns + tiles + m;
      const int32_t before = own - key_blocks(g.g.p, t, m).first;
      if (before > 0)
        asm volatile(
            "{\n\t.reg .pred p;\n\t.reg .s32 now;\n\t"
            "again:\n\t"
            "ld.acquire.gpu.global.s32 now, [%0];\n\t"
            "setp.lt.s32 p, now, %1;\n\t"
            "@p bra again;\n\t"
            "fence.proxy.async.global;\n\t}" ::"l"(turn),
            "r"(before)
            : "memory");
      full->wait(parity);
      parity ^= 1;
      if (before > 0)
        asm volatile(
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
            "r"(from), "n"(kSums)
            : "memory");
      else
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
                     "r"(from), "n"(kSums)
                     : "memory");
      tma_store_commit();
      tma_store_wait_read<0>();
      empty->arrive();
      tma_store_wait<0>();
      asm volatile(
          "fence.proxy.async.global;\n\tred.release.gpu.global.add.s32 [%0], 1;" ::"l"(turn)
          : "memory");
    }
  }
}

/// threadIdx.x, read again, so that values derived from it are not kept, which would spill.
__device__ __forceinline__ int32_t this_thread() {
  int32_t thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}
__device__ __forceinline__ void release(Mbarrier& empty) {
  if (threadIdx.x % 32 == 0) empty.arrive();
}
__device__ __forceinline__ void consumers_wait() {
  asm volatile("barrier.cta.sync 1, 256;" ::: "memory");
}
/// Stores 8 × 8 tiles of 16-bit elements to shared memory; `to` is the address of this lane's row.
__device__ __forceinline__ void store_tiles_of(uint32_t to, const uint32_t* w) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
               "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
               : "memory");
}

template <AttentionTraits S, AttentionGradientWgmmaConfig C>
struct Consumer {
  using Of = Shared<S, C>;
  static constexpr WgmmaInput kInput =
      S.type == DType::kBF16 ? WgmmaInput::kBF16 : WgmmaInput::kF16;
  static constexpr int kD = S.d, kColumns = kD / 2;  // of dQ, of which a warpgroup makes half

  const AttentionGradientWgmmaParams& g;
  const Shared<S, C>& shared;
  int32_t column;                  // of this thread's first queries in a tile
  uint32_t to_ds;                  // this lane's row of dSᵀ, with its chunk
  uint64_t k, v, q, dout;          // along d: operands of S and dP
  uint64_t q_across, dout_across;  // along queries
  uint64_t ds, ds_across, k_across;
  float factor;
  KeyRange seen[2];  // queries that see this thread's keys
  RingPlace<C.stages> at;
  RingPlace<1> ds_at;
  RingPlace<C.sums> sums_at;

  __device__ __forceinline__ Consumer(const AttentionGradientWgmmaParams& params,
                                      const Shared<S, C>& of, int32_t group, int32_t thread)
      : g(params), shared(of) {
    const int32_t lane = thread % 32, key = group * 64 + thread / 32 * 16 + lane % 16;
    column = lane % 4 * 2;
    to_ds = shared_address(of.ds) + key * 128 + ((lane / 16 ^ lane % 8) << 4);
    k = wgmma_tile_k(of.k + group * 64 * 128), v = wgmma_tile_k(of.v + group * 64 * 128);
    q = wgmma_tile_k(of.q), dout = wgmma_tile_k(of.dout);
    q_across = wgmma_tile_mn(of.q, kQueries * 128),
    dout_across = wgmma_tile_mn(of.dout, kQueries * 128);
    ds = wgmma_tile_k(of.ds + group * 64 * 128);
    ds_across = wgmma_tile_mn(of.ds, kKeys * 128);
    const int32_t half = kD == 128 ? group * kKeys * 128 : group * 64;
    k_across = wgmma_tile_mn(of.k + half, kKeys * 128);
    factor = kStaged<S> ? kLog2E : g.g.p.scale * kLog2E;
  }

  /// rows·metᵀ for this warpgroup's 64 rows of keys and a tile.
  __device__ __forceinline__ void multiply(float (&s)[32], uint64_t rows, uint64_t met,
                                           uint32_t stage) const {
#pragma unroll
    for (int c = 0; c < kD / 64; ++c)
      wgmma_row<64, kInput>(s, wgmma_advance(rows, c * kKeys * 128),
                            wgmma_advance(met, stage * Of::kMet + c * kQueries * 128), c > 0);
    wgmma_commit();
  }
  /// dV += Pᵀ·dO.
  __device__ __forceinline__ void accumulate_values(float (&dv)[kD / 2],
                                                    const uint32_t (&a)[16]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      wgmma_from_registers<kD, kInput>(dv, a + 4 * i,
                                       wgmma_advance(dout_across, at.stage * Of::kMet + i * 2048));
    wgmma_commit();
  }
  /// dK += dSᵀ·Q. dSᵀ in registers would leave ptxas too few, and it would serialise all WGMMA
  /// (C7512).
  __device__ __forceinline__ void accumulate_keys(float (&dk)[kD / 2]) const {
    wgmma_row<kD, kInput, WgmmaMajor::kK, WgmmaMajor::kMN>(
        dk, ds, wgmma_advance(q_across, at.stage * Of::kMet), 1);
    wgmma_commit();
  }
  __device__ __forceinline__ void multiply_queries(float (&dq)[kColumns / 2]) const {
#pragma unroll
    for (int i = 0; i < kKeys / 64; ++i)
      wgmma_row<kColumns, kInput, WgmmaMajor::kMN, WgmmaMajor::kMN>(
          dq, wgmma_advance(ds_across, i * 4 * 2048), wgmma_advance(k_across, i * 4 * 2048), i > 0);
    wgmma_commit();
  }

  __device__ __forceinline__ float2 facts(const float* of, int i) const {
    return *reinterpret_cast<const float2*>(of + at.stage * kQueries + i * 8 + column);
  }
  /// Turns scores into P and, under a cap, dP into dS as well. `first`: this thread's first query.
  template <bool kClean>
  __device__ __forceinline__ void weights(float (&s)[32], float (&dp)[32], int32_t first) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float2 lse = facts(shared.lse, i);
      float2 delta{0, 0};
      if constexpr (S.cap) delta = facts(shared.delta, i);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float& x = s[4 * i + j];
        float slope = 1;
        if constexpr (kStaged<S>) x = score<S>(g.g.p, x, 0, 0, slope);
        x = DeviceMath::exp2(fmaf(x, factor, -(j & 1 ? lse.y : lse.x)));
        if constexpr (!kClean) {
          const int32_t row = first + i * 8 + (j & 1);
          x = row >= seen[j / 2].first && row < seen[j / 2].end ? x : 0.0f;
        }
        if constexpr (S.cap)
          dp[4 * i + j] = x * (dp[4 * i + j] - (j & 1 ? delta.y : delta.x)) * slope;
      }
    }
  }
  __device__ __forceinline__ void gradients(const float (&s)[32], float (&dp)[32]) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float2 delta = facts(shared.delta, i);
#pragma unroll
      for (int j = 0; j < 4; ++j)
        dp[4 * i + j] = s[4 * i + j] * (dp[4 * i + j] - (j & 1 ? delta.y : delta.x));
    }
  }
  /// Stores dSᵀ to shared memory.
  __device__ __forceinline__ void share(const float (&s)[32]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      uint32_t a[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) a[j] = pack_pair<S.type>(s[8 * i + 2 * j], s[8 * i + 2 * j + 1]);
      store_tiles_of(to_ds ^ i * 32, a);
    }
    fence_async_shared();
  }

  /// Computes the scores of the first tile.
  __device__ __forceinline__ void begin(float (&s)[32]) const {
    shared.k_full->wait(0);
    shared.q_full[0].wait(0);
    wgmma_fence();
    multiply(s, k, q, 0);
    wgmma_wait<0>();
    wgmma_pin(s);
    shared.v_full->wait(0);
  }

  /// Computes P and dS of a tile, and issues the product for dV, which stays in flight.
  template <bool kClean>
  __device__ __forceinline__ void differentiate(float (&dv)[kD / 2], float (&s)[32], int32_t m) {
    float dp[32];
    uint32_t a[16];
    wgmma_fence();
    multiply(dp, v, dout, at.stage);
    if constexpr (S.cap) {
      wgmma_wait<0>();
      wgmma_pin(dp);
    }
    weights<kClean>(s, dp, m * kQueries + column);
#pragma unroll
    for (int i = 0; i < 16; ++i) a[i] = pack_pair<S.type>(s[2 * i], s[2 * i + 1]);
    wgmma_fence();
    accumulate_values(dv, a);
    if constexpr (!S.cap) {
      wgmma_wait<1>();
      wgmma_pin(dp);
      gradients(s, dp);
    }
    shared.ds_empty->wait(ds_at.parity ^ 1);
    share(dp);
  }

  /// Processes tile m, whose scores are ready. On return, `s` holds the scores of the next tile if
  /// there is `more`, else those of stale data.
  template <bool kClean>
  __device__ __forceinline__ void meet(float (&dk)[kD / 2], float (&dv)[kD / 2], float (&s)[32],
                                       int32_t m, bool more) {
    shared.dout_full[at.stage].wait(at.parity);
    differentiate<kClean>(dv, s, m);
    ds_at.advance();
    consumers_wait();
    float dq[kColumns / 2];
    wgmma_fence();
    accumulate_keys(dk);
    multiply_queries(dq);
    RingPlace<C.stages> next = at;
    next.advance();
    if (more) shared.q_full[next.stage].wait(next.parity);
    multiply(s, k, q, next.stage);
    wgmma_wait<1>();
    wgmma_pin(dq);
    release(shared.q_empty[at.stage]);
    release(shared.dout_empty[at.stage]);
    release(*shared.ds_empty);
    at = next;

    shared.sums_empty[sums_at.stage].wait(sums_at.parity ^ 1);
    const int32_t thread = this_thread() - 128;
    const uint32_t to_sums = shared_address(shared.sums) + sums_at.stage * Of::kSums +
                             thread / 128 * (Of::kSums / 2) + thread % 128 * 16;
#pragma unroll
    for (int i = 0; i < kColumns / 8; ++i) {
      const uint32_t words[4] = {bits_of_float(dq[4 * i]), bits_of_float(dq[4 * i + 1]),
                                 bits_of_float(dq[4 * i + 2]), bits_of_float(dq[4 * i + 3])};
      store_shared(to_sums + i * 2048, words);
    }
    fence_async_shared();
    __syncwarp();
    release(shared.sums_full[sums_at.stage]);
    sums_at.advance();
    wgmma_wait<0>();
    wgmma_pin(s);
  }
};

/// Stores this thread's rows of dk or dv.
template <AttentionTraits S>
__device__ __forceinline__ void store_rows(void* to, const int64_t (&at)[4], const Tile& t,
                                           int32_t own, int32_t rows, const float (&sums)[S.d / 2],
                                           float factor) {
  const int64_t batch = S.packed_sequences ? 0 : t.batch;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int32_t row = own + 8 * r;
    uint16_t* const out = static_cast<uint16_t*>(to) + batch * at[0] +
                          (t.k_from + static_cast<int64_t>(t.first) + row) * at[1] +
                          t.head * at[2] + threadIdx.x % 4 * 8;
#pragma unroll
    for (int i = 0; i < S.d / 8; i += 4) {
      uint32_t words[4];
#pragma unroll
      for (int j = 0; j < 4; ++j)
        words[j] = pack_pair<S.type>(sums[4 * (i + j) + 2 * r] * factor,
                                     sums[4 * (i + j) + 2 * r + 1] * factor);
      gather_quad(words);
      if (row < rows)
        *reinterpret_cast<uint4*>(out + i * 8) = {words[0], words[1], words[2], words[3]};
    }
  }
}

/// The first of this thread's two keys.
__device__ __forceinline__ int32_t own_key() {
  const int32_t thread = this_thread();
  return (thread / 32 - 4) * 16 + thread % 32 / 4;
}

template <AttentionTraits S, AttentionGradientWgmmaConfig C>
__device__ __forceinline__ void consume(const AttentionGradientWgmmaParams& g,
                                        const Shared<S, C>& shared, const Tile& t, int32_t group) {
  const AttentionParams& p = g.g.p;
  const int32_t thread = static_cast<int32_t>(threadIdx.x) % 128;
  int32_t own = own_key(), rows = shared.met->rows;
  Consumer<S, C> c(g, shared, group, thread);
#pragma unroll
  for (int r = 0; r < 2; ++r)
    c.seen[r] = own + 8 * r < rows ? seeing(p, t, t.first + own + 8 * r) : KeyRange{0, 0};
  float dk[S.d / 2], dv[S.d / 2];
#pragma unroll
  for (int i = 0; i < S.d / 2; ++i) dk[i] = dv[i] = 0;
  if (shared.met->begin < shared.met->end) {
    // Uniform for the compiler, so that loop counts and descriptors stay in uniform registers.
    const auto uniform = [](int32_t x) { return __reduce_min_sync(0xffffffffu, x); };
    int32_t left = uniform((shared.met->end - shared.met->begin) * p.group);
    float s[32];
    c.begin(s);
#pragma unroll 1
    do {
      int32_t m = uniform(shared.met->end) - 1;
#pragma unroll 1
      do {
        const int32_t last = uniform(m >= shared.met->from ? shared.met->to : shared.met->begin);
#pragma unroll 1
        for (; m >= last; --m) c.template meet<false>(dk, dv, s, m, --left > 0);
        const int32_t from = uniform(shared.met->from);
#pragma unroll 1
        for (; m >= from; --m) c.template meet<true>(dk, dv, s, m, --left > 0);
      } while (m >= uniform(shared.met->begin));
    } while (left > 0);
    wgmma_pin(dk);
    wgmma_pin(dv);
  }
  own = own_key(), rows = shared.met->rows;
  store_rows<S>(g.g.dk, g.g.dk_at, t, own, rows, dk, p.scale);
  store_rows<S>(g.g.dv, g.g.dv_at, t, own, rows, dv, 1.0f);
}

}  // namespace gradient_wgmma

template <AttentionTraits S, AttentionGradientWgmmaConfig C>
__global__ void __launch_bounds__(gradient_wgmma::kThreads, 1)
    attention_gradient_wgmma(const __grid_constant__ AttentionGradientWgmmaParams g) {
  using namespace gradient_wgmma;
  static_assert(S.d == S.dv && S.bias == DType::kAbsent && C.sums <= 2);  // a warp each
  extern __shared__ unsigned char raw[];
  const Shared<S, C> shared(raw);
  const AttentionParams& p = g.g.p;
  const auto all = static_cast<uint32_t>(S.packed_sequences ? p.heads : p.heads * p.batches);
  const Tile t = tile_at<S.packed_sequences, kKeys, true>(
      p, index_together(blockIdx.x, static_cast<uint32_t>(p.tiles), all, C.heads));
  if (t.empty_of_keys()) return;
  const int32_t rows = min(kKeys, t.k_rows - t.first);
  const KeyRange lowest = seeing(p, t, t.first), highest = seeing(p, t, t.first + rows - 1);
  Met met;
  met.rows = rows;
  met.begin = lowest.first / kQueries, met.end = (highest.end + kQueries - 1) / kQueries;
  // A tile needs no mask if all 128 keys exist and every query of the tile sees them all.
  met.to = rows < kKeys ? met.begin : lowest.end == t.q_rows ? met.end : lowest.end / kQueries;
  met.to = max(met.begin, min(met.to, met.end));
  met.from = max(met.begin, min((highest.first + kQueries - 1) / kQueries, met.to));
  if (threadIdx.x == 0) {
    tma_prefetch_map(g.q), tma_prefetch_map(g.k), tma_prefetch_map(g.v), tma_prefetch_map(g.dout);
    shared.start(met);
  }
  __syncthreads();
  const int32_t group = __shfl_sync(0xffffffffu, static_cast<int32_t>(threadIdx.x) / 128, 0);
  if (group == 0) {
    release_registers<24>();
    const int32_t warp = static_cast<int32_t>(threadIdx.x) / 32;
    if (threadIdx.x % 32 == 0 && met.begin < met.end) {
      if (warp == 0) produce<S, C>(g, shared, t, met);
      if (warp == 3) bring_own<S, C>(g, shared, t);
      if (warp > 0 && warp <= C.sums) add_sums<S, C>(g, shared, t, met, warp - 1);
    }
  } else {
    take_registers<240>();
    consume<S, C>(g, shared, t, group - 1);
  }
}

}  // namespace dlblas::attention
