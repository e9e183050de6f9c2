// Latent attention over a paged cache by Hopper's WGMMA: latents of 128, 256 or 512, rotary parts
// of 0 or 64, pages of a multiple of 8 keys, or of any for f8. A block takes 64 heads of a token
// and a part of its keys, in tiles of 64 (of f8 48), which shared memory holds once, as keys and as
// values. Two warpgroups take tiles in turns: one computes a tile's scores and their powers while
// the other's products run. Each sums half of the latents over all tiles, with its own powers from
// registers and the other's from shared memory. A third copies, and widens keys of f8, exactly, to
// q's type. The blocks of a cluster join their parts of a sequence; mla_join joins clusters.
// In: MlaWgmmaParams. Out: o and lse. Numerics: f32; powers are rounded to 16 bits for the product
// with values; the order of sums depends on the number of parts alone.
// Flow: call > validate > select > compile > [launch].
// Read next: mla_wgmma_join.cuh, device/wgmma.cuh, mla_decode.cuh (mla_join).
#pragma once

#include "ops/attention/mla_decode_lse/mla_wgmma_codes.cuh"
#include "ops/attention/mla_decode_lse/mla_wgmma_join.cuh"

namespace dlblas::attention {

namespace mla_wgmma_detail {

/// The copying warpgroup: the lanes of one warp issue; all threads clear the rows past the last
/// key.
template <MlaTraits S>
__device__ __forceinline__ void produce(const MlaWgmmaParams& g, const Shared<S>& shared,
                                        const Part& part) {
  using Tiles = Shared<S>;
  constexpr int kKeys = Tiles::kKeys, kBox = box_of(S.page), kEntries = kKeys / kBox;
  constexpr int kLatents = S.latent / 64;
  static_assert(32 % kEntries == 0 && S.rotary <= 64);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  const int32_t* const table = g.p.table + part.token * g.p.table_at[0];
  const int32_t tiles = part.tiles<kKeys>(), last = part.end - part.begin - (tiles - 1) * kKeys;
  // A lane copies boxes of one entry of the table, of every 32 / kEntries-th chunk.
  const int entry = lane % kEntries;
  const auto page_of = [&](int32_t first) {
    const int32_t n = first + entry * kBox;
    return n < part.end ? table[n / S.page * g.p.table_at[1]] : 0;
  };
  if (thread < 32) {
    RingPlace<kStages> at;
    int32_t next = page_of(part.begin);
#pragma unroll 1
    for (int32_t i = 0; i < tiles; ++i, at.advance()) {
      const int32_t first = part.begin + i * kKeys, page = next;
      next = page_of(first + kKeys);
      const bool whole = i + 1 < tiles || last == kKeys;
      const int32_t entries = whole ? kEntries : (last + kBox - 1) / kBox;
      unsigned char* const tile = shared.k + at.stage * Tiles::kTile + entry * kBox * 128;
#pragma unroll
      for (int group = 0; group < 2; ++group) {
        const int32_t stage = at.stage * 2 + group;
        const int32_t half = at.stage ^ group;  // whose latents are the group's first chunks
        const int chunks = Tiles::kHalf + group * (S.rotary / 64);
        shared.k_empty[stage].wait(at.parity ^ 1);
        Mbarrier& full = whole ? shared.k_full[stage] : *shared.landed;
        if (lane == 0 && whole) full.arrive_expect_tx(chunks * Tiles::kChunkBytes);
        if (lane == 0 && !whole && group == 0)
          full.arrive_expect_tx(entries * Tiles::kChunks * kBox * 128);
        __syncwarp();
#pragma unroll
        for (int j = 0; j < (kEntries * chunks + 31) / 32; ++j) {
          const int32_t c = (j * 32 + lane) / kEntries;
          if (c >= chunks || entry >= entries) continue;
          const bool latent = c < Tiles::kHalf;
          const int32_t column = latent ? half * Tiles::kHalf + c : c - Tiles::kHalf;
          unsigned char* const to = tile + (latent ? column : kLatents) * Tiles::kChunkBytes;
          load_once(to, latent ? g.ckv : g.kpe, full,
                    Tile3{column * 64, (first + entry * kBox) % S.page, page});
        }
      }
    }
  }
  if (tiles == 0 || last == kKeys) return;
  // Rows past the last key are multiplied by powers of 0, but may have held anything.
  const int32_t stage = (tiles - 1) % kStages;
  shared.landed->wait(0);
  const uint32_t tile = shared_address(shared.k + stage * Tiles::kTile);
#pragma unroll 1
  for (int32_t i = thread; i < (kKeys - last) * Tiles::kChunks * 8; i += 128) {
    const int32_t row = last + i / (Tiles::kChunks * 8), rest = i % (Tiles::kChunks * 8);
    store_shared(tile + rest / 8 * Tiles::kChunkBytes + row * 128 + rest % 8 * 16, {0, 0, 0, 0});
  }
  fence_async_shared();
  asm volatile("barrier.cta.sync 1, 128;" ::: "memory");
  if (thread < 2) shared.k_full[stage * 2 + thread].arrive();
}

/// One of the two multiplying warpgroups. A thread has rows g and g + 8 of its warp's 16.
template <MlaTraits S>
struct Consumer {
  using Tiles = Shared<S>;
  static constexpr WgmmaInput kInput =
      S.type == DType::kBF16 ? WgmmaInput::kBF16 : WgmmaInput::kF16;
  static constexpr int kHalf = S.latent / 2, kKeys = Tiles::kKeys;
  static constexpr int kChunkBytes = Tiles::kChunkBytes, kRotary = S.rotary / 64;
  static constexpr bool kApart =
      S.scaled && S.rotary > 0;  // rotary scores are scaled by themselves
  // f16 holds little below 2^-14. A maximum stays until a score exceeds it by more than kSlack:
  // powers may exceed 1, which f32 and 16 bits hold as well, and sums are rescaled rarely.
  static constexpr float kRaise = S.type == DType::kBF16 ? 0.0f : 10.0f;
  static constexpr float kSlack = S.type == DType::kBF16 ? 8.0f : 4.0f;

  const MlaWgmmaParams& g;
  const Tiles& shared;
  const Part& part;
  const int32_t half;  // of the latents; its own tiles are those of this parity
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
  const int32_t warp = static_cast<int32_t>(threadIdx.x) % 128 / 32;
  const int32_t row = warp * 16 + lane / 4;
  float o[kHalf / 2] = {};
  uint32_t a[kKeys / 4];  // powers of its own tile
  float most[2] = {-DeviceMath::infinity(), -DeviceMath::infinity()}, sum[2] = {0, 0};
  // Scores are (rotary · ratio + latents) · factor.
  float factor, ratio = 1, latent_scale = 1;

  __device__ __forceinline__ Consumer(const MlaWgmmaParams& params, const Tiles& memory,
                                      const Part& of, int32_t which)
      : g(params), shared(memory), part(of), half(which), factor(params.p.scale) {
    if constexpr (S.scaled) {
      latent_scale = mla_scale_of(g.p.ckv_scale);
      const float rotary = mla_scale_of(g.p.kpe_scale);
      // Of a factor that is tiny beside the other, what it leaves of a score is below rounding.
      const bool tiny = fabsf(latent_scale) < fabsf(rotary) * 0x1p-60f;
      const float base = tiny && S.rotary > 0 ? rotary * 0x1p-60f : latent_scale;
      factor *= base, ratio = base == 0 ? 0 : rotary / base;
    }
  }

  /// This half of the values of a stage.
  __device__ __forceinline__ uint64_t values(int32_t stage) const {
    return wgmma_advance(wgmma_tile_mn(shared.k, kChunkBytes),
                         stage * Tiles::kTile + half * Tiles::kHalf * kChunkBytes);
  }
  /// Multiplies what was summed before, seldom. The wait is for scores in flight: without it, ptxas
  /// (13.0) injects one (C7517).
  __device__ __forceinline__ void rescale(const float (&scale)[2]) {
    if (!__any_sync(0xffffffffu, scale[0] != 1 || scale[1] != 1)) return;
    wgmma_wait<0>();
    wgmma_pin(o);
#pragma unroll
    for (int i = 0; i < kHalf / 2; ++i) o[i] *= scale[i >> 1 & 1];
  }

  /// Issues the product of `count` chunks of queries and of its own stage's keys.
  __device__ __forceinline__ void multiply(float (&s)[kKeys / 2], int32_t chunk, int count,
                                           bool add) const {
    const uint64_t q = wgmma_advance(wgmma_tile_k(shared.q), chunk * kQueryBytes);
    const uint64_t k =
        wgmma_advance(wgmma_tile_k(shared.k), half * Tiles::kTile + chunk * kChunkBytes);
#pragma unroll
    for (int c = 0; c < count; ++c)
      wgmma_row<kKeys, kInput>(s, wgmma_advance(q, c * kQueryBytes),
                               wgmma_advance(k, c * kChunkBytes), add || c > 0);
  }
  /// Issues the scores of its own stage in two steps, each as soon as its group is there.
  __device__ __forceinline__ void first_scores(float (&s)[kKeys / 2], uint32_t parity) const {
    Mbarrier* const full = shared.k_full + half * 2;
    if constexpr (kApart) {
      full[1].wait(parity);
      wgmma_fence();
      multiply(s, 2 * Tiles::kHalf, kRotary, false);
      wgmma_commit();
      wgmma_wait<0>();
      wgmma_pin(s);
#pragma unroll
      for (float& x : s) x *= ratio;
    }
    full[0].wait(parity);
    wgmma_fence();
    multiply(s, half * Tiles::kHalf, Tiles::kHalf, kApart);
    wgmma_commit();
  }
  __device__ __forceinline__ void other_scores(float (&s)[kKeys / 2], uint32_t parity) const {
    shared.k_full[half * 2 + 1].wait(parity);
    wgmma_fence();
    multiply(s, (half ^ 1) * Tiles::kHalf, Tiles::kHalf, true);
    if constexpr (!kApart) multiply(s, 2 * Tiles::kHalf, kRotary, true);
    wgmma_commit();
  }

  /// Turns the scores of the tile from key n on into powers, and hands them to the other warpgroup.
  __device__ __forceinline__ void powers(float (&s)[kKeys / 2], int32_t n, float (&scale)[2]) {
    const float nothing = -DeviceMath::infinity();
    const int32_t left = part.end - n - lane % 4 * 2;
    float peak[2] = {most[0], most[1]}, base[2];
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) s[i] *= factor;
    if (n + kKeys > part.end) {
#pragma unroll
      for (int i = 0; i < kKeys / 2; ++i) s[i] = i / 4 * 8 + (i & 1) < left ? s[i] : nothing;
    }
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) peak[i >> 1 & 1] = fmaxf(peak[i >> 1 & 1], s[i]);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      peak[r] = fmaxf(peak[r], __shfl_xor_sync(0xffffffffu, peak[r], 1));
      peak[r] = fmaxf(peak[r], __shfl_xor_sync(0xffffffffu, peak[r], 2));
      if (peak[r] - most[r] <= kSlack) peak[r] = most[r];
      base[r] = peak[r] == nothing ? 0 : peak[r];
      scale[r] = peak[r] == most[r] ? 1 : DeviceMath::exp2(most[r] - base[r]);
      base[r] = raised_base(base[r], kRaise), most[r] = peak[r], sum[r] *= scale[r];
    }
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) {
      s[i] = DeviceMath::exp2(s[i] - base[i >> 1 & 1]);
      sum[i >> 1 & 1] += s[i];
    }
#pragma unroll
    for (int i = 0; i < kKeys / 4; ++i) a[i] = pack_pair<S.type>(s[2 * i], s[2 * i + 1]);
    // All warps' scores have read the columns that the powers replace.
    asm volatile("barrier.cta.sync %0, 128;" ::"r"(half + 3) : "memory");
    const uint32_t to = shared_address(shared.powers(half)) + lane / 16 * 1024 + lane % 8 * 128 +
                        ((warp * 2 + lane / 8 % 2 ^ lane % 8) << 4);
#pragma unroll
    for (int i = 0; i < kKeys / 16; ++i)
      store_transposed(to + i * 2048, {a[4 * i], a[4 * i + 1], a[4 * i + 2], a[4 * i + 3]});
    if (lane % 4 == 0) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        shared.scales[half * kRows + row + 8 * r] = scale[r];
        shared.maxima[half * kRows + row + 8 * r] = most[r];
      }
    }
    fence_async_shared();
    shared.p_full[half].arrive();
  }

  /// Waits for the other warpgroup's powers, and issues their product with this half of its tile.
  __device__ __forceinline__ void follow(uint32_t parity) {
    const int32_t stage = half ^ 1;
    shared.p_full[stage].wait(parity);
    float scale[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      scale[r] = shared.scales[stage * kRows + row + 8 * r];
      most[r] = shared.maxima[stage * kRows + row + 8 * r];
      sum[r] *= scale[r];
    }
    rescale(scale);
    wgmma_fence();
    const uint64_t rows = wgmma_tile_mn(shared.powers(stage), 0), v = values(stage);
    if constexpr (kKeys == 64) {
      wgmma_row<kHalf, kInput, WgmmaMajor::kMN, WgmmaMajor::kMN>(o, rows, v, 1);
    } else {
#pragma unroll
      for (int i = 0; i < kKeys / 16; ++i)
        wgmma<kHalf, kInput, WgmmaMajor::kMN, WgmmaMajor::kMN>(o, wgmma_advance(rows, i * 2048),
                                                               wgmma_advance(v, i * 2048), 1);
    }
    wgmma_commit();
  }
  /// Issues the product of its own powers with this half of its tile.
  __device__ __forceinline__ void mix() {
    wgmma_fence();
    const uint64_t v = values(half);
#pragma unroll
    for (int i = 0; i < kKeys / 16; ++i)
      wgmma_from_registers<kHalf, kInput>(o, a + 4 * i, wgmma_advance(v, i * 2048));
    wgmma_commit();
  }

  /// What is left of a tile after its scores: the product of its own powers with this half.
  __device__ __forceinline__ void finish(const float (&scale)[2]) {
    rescale(scale);
    mix();
    wgmma_wait<0>();
    wgmma_pin(o);
    release(shared.k_empty[half * 2]);
  }

  /// The warpgroup of the even tiles. The order of both lets a stage's copies start early: no
  /// product of a tile waits for a later tile's keys.
  __device__ __forceinline__ void run_even(int32_t tiles) {
    Mbarrier& other = shared.k_empty[(half ^ 1) * 2 + 1];  // of the other's stage, its second group
    float s[kKeys / 2], scale[2];
    uint32_t parity = 0;
#pragma unroll 1
    for (int32_t t = 0; t < tiles; t += 2, parity ^= 1) {
      if (t > 0) follow(parity ^ 1);
      first_scores(s, parity);
      wgmma_wait<1>();
      wgmma_pin(o);
      if (t > 0) release(other);
      other_scores(s, parity);
      wgmma_wait<0>();
      wgmma_pin(s);
      powers(s, part.begin + t * kKeys, scale);
      finish(scale);
    }
    if (tiles % 2 == 0 && tiles > 0) {
      follow(parity ^ 1);
      wgmma_wait<0>();
      wgmma_pin(o);
    }
  }
  /// The warpgroup of the odd tiles.
  __device__ __forceinline__ void run_odd(int32_t tiles) {
    Mbarrier& other = shared.k_empty[(half ^ 1) * 2 + 1];  // of the other's stage, its second group
    float s[kKeys / 2], scale[2];
    uint32_t parity = 0;
#pragma unroll 1
    for (int32_t t = 1; t < tiles; t += 2, parity ^= 1) {
      first_scores(s, parity);
      other_scores(s, parity);
      follow(parity);
      wgmma_wait<1>();
      wgmma_pin(s);
      powers(s, part.begin + t * kKeys, scale);
      wgmma_wait<0>();
      wgmma_pin(o);
      release(other);
      finish(scale);
    }
    if (tiles % 2 == 1) {
      follow(parity);
      wgmma_wait<0>();
      wgmma_pin(o);
    }
  }
  __device__ __forceinline__ void run() {
    const int32_t tiles = __reduce_min_sync(0xffffffffu, part.tiles<kKeys>());
    shared.q_full->wait(0);
    if (half == 0)
      run_even(tiles);
    else
      run_odd(tiles);
  }
};

}  // namespace mla_wgmma_detail

template <MlaTraits S, MlaWgmmaConfig C>
__global__ void __launch_bounds__(mla_wgmma_detail::kThreads, 1)
    mla_wgmma(const __grid_constant__ MlaWgmmaParams g) {
  using namespace mla_wgmma_detail;
  constexpr int kKeys = keys_of(S);
  static_assert(S.latent % 128 == 0 && S.rotary % 64 == 0);
  static_assert(S.page % 8 == 0 || is_f8(S.cache));
  extern __shared__ unsigned char raw[];
  const Shared<S> shared(raw);
  const MlaParams& p = g.p;
  launch_dependents();
  Part part = part_of(p);
  if (threadIdx.x == 0) {
    tma_prefetch_map(g.q_nope);
    if constexpr (!is_f8(S.cache)) tma_prefetch_map(g.ckv);
    shared.start();
  }
  __syncthreads();
  wait_for_dependencies();
  prefetch_table(p, part);
  if (threadIdx.x == 0) copy_queries<S>(g, shared, part);
  part.take_keys<kKeys>(p, int64_t{p.entries} * S.page);

  const int32_t group = __shfl_sync(0xffffffffu, static_cast<int32_t>(threadIdx.x) / 128, 0);
  if (group == 0) {
    release_registers<40>();
    if constexpr (is_f8(S.cache)) {
      const int32_t warp = __shfl_sync(0xffffffffu, static_cast<int32_t>(threadIdx.x) / 32, 0);
      if (warp == 0)
        copy_codes<S>(g, shared, part);
      else
        widen_codes<S>(shared, part, warp - 1);
    } else {
      produce<S>(g, shared, part);
    }
  } else {
    take_registers<232>();
    Consumer<S> of(g, shared, part, group - 1);
    of.run();
    join_blocks<S>(g.p, shared, part, of);
  }
}

}  // namespace dlblas::attention
