// Latent attention over a paged cache by Hopper's WGMMA: latents of 128, 256 or 512, rotary parts
// of 0 or 64, pages of a multiple of 8 keys, or of any for f8. A block takes 64 heads of a token
// and a part of its keys, 64 at a time (of f8 48), which shared memory holds once, as keys and as
// values. One warpgroup computes the scores, their powers and the first half of the latents. A
// second computes the other half from the same powers in shared memory, while the first has begun
// the next scores. A third copies, and widens keys of f8, exactly, to q's type.
// mla_join joins the parts of a sequence. In: MlaWgmmaParams. Out: o and lse. Numerics: f32; powers
// are rounded to 16 bits for the product with values; the order of sums depends on the number of
// parts alone. Flow: call > validate > select > compile > [launch].
// Read next: device/wgmma.cuh, mla_decode.cuh (mla_join).
#pragma once

#include "ops/attention/mla_decode_lse/mla_wgmma_codes.cuh"

namespace dlblas::attention {

namespace mla_wgmma_detail {

/// The copying warpgroup: the lanes of one warp issue; all threads clear the rows past the last
/// key.
template <MlaTraits S>
__device__ __forceinline__ void produce(const MlaWgmmaParams& g, const Shared<S>& shared,
                                        const Part& part) {
  constexpr int kKeys = Shared<S>::kKeys, kChunkBytes = Shared<S>::kChunkBytes;
  constexpr int kBox = box_of(S.page), kEntries = kKeys / kBox, kChunks = Shared<S>::kChunks;
  constexpr int kBoxes = kEntries * kChunks;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  const int32_t* const table = g.p.table + part.token * g.p.table_at[0];
  const int32_t tiles = part.tiles<kKeys>(), last = part.end - part.begin - (tiles - 1) * kKeys;
  const auto page_of = [&](int32_t first) {
    const int32_t n = first + lane % kEntries * kBox;
    return n < part.end ? table[n / S.page * g.p.table_at[1]] : 0;
  };
  RingPlace<kStages> at;
  if (thread < 32) {
    if (thread == 0 && tiles > 0) copy_queries<S>(g, shared, part);
    int32_t next = page_of(part.begin);
#pragma unroll 1
    for (int32_t i = 0; i < tiles; ++i, at.advance()) {
      const int32_t first = part.begin + i * kKeys, pages = next;
      next = page_of(first + kKeys);
      shared.k_empty[at.stage].wait(at.parity ^ 1);
      const bool whole = i + 1 < tiles || last == kKeys;
      const int32_t entries = whole ? kEntries : (last + kBox - 1) / kBox;
      Mbarrier& full = whole ? shared.k_full[at.stage] : *shared.landed;
      if (lane == 0) full.arrive_expect_tx(entries * kChunks * kBox * 128);
      __syncwarp();
#pragma unroll
      for (int j = 0; j < (kBoxes + 31) / 32; ++j) {
        const int box = j * 32 + lane, entry = box / kChunks, c = box - entry * kChunks;
        const int32_t page = __shfl_sync(0xffffffffu, pages, entry % 32);
        const bool latent = c < S.latent / 64;
        if (entry < entries)
          tma_load(
              shared.k + at.stage * Shared<S>::kTile + c * kChunkBytes + entry * kBox * 128,
              latent ? g.ckv : g.kpe, full,
              Tile3{(latent ? c : c - S.latent / 64) * 64, (first + entry * kBox) % S.page, page});
      }
    }
  }
  if (tiles == 0 || last == kKeys) return;
  // Rows past the last key are multiplied by powers of 0, but may have held anything.
  const int32_t stage = (tiles - 1) % kStages;
  shared.landed->wait(0);
  const uint32_t tile = shared_address(shared.k + stage * Shared<S>::kTile);
#pragma unroll 1
  for (int32_t i = thread; i < (kKeys - last) * kChunks * 8; i += 128) {
    const int32_t row = last + i / (kChunks * 8), rest = i % (kChunks * 8);
    store_shared(tile + rest / 8 * kChunkBytes + row * 128 + rest % 8 * 16, {0, 0, 0, 0});
  }
  fence_async_shared();
  asm volatile("barrier.cta.sync 1, 128;" ::: "memory");
  if (thread == 0) shared.k_full[stage].arrive();
}

/// A thread has rows g and g + 8 of its warp's 16.
template <MlaTraits S>
struct Consumer {
  static constexpr WgmmaInput kInput =
      S.type == DType::kBF16 ? WgmmaInput::kBF16 : WgmmaInput::kF16;
  static constexpr int kHalf = S.latent / 2, kTile = Shared<S>::kTile;
  static constexpr int kKeys = Shared<S>::kKeys, kChunkBytes = Shared<S>::kChunkBytes;
  static constexpr float kRaise = S.type == DType::kBF16 ? 0.0f : 10.0f;

  const MlaWgmmaParams& g;
  const Shared<S>& shared;
  const Part& part;
  const int32_t half;  // of the latents
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
  const int32_t row = static_cast<int32_t>(threadIdx.x) % 128 / 32 * 16 + lane / 4;
  float o[kHalf / 2] = {};
  RingPlace<kStages> at;
  // Scores are (rotary · ratio + latents) · factor.
  float factor, ratio = 1, latent_scale = 1;

  __device__ __forceinline__ Consumer(const MlaWgmmaParams& params, const Shared<S>& memory,
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

  /// This half of a tile's values.
  __device__ __forceinline__ uint64_t values() const {
    return wgmma_advance(wgmma_tile_mn(shared.k, kChunkBytes),
                         at.stage * kTile + half * (kHalf / 64) * kChunkBytes);
  }
  __device__ __forceinline__ void rescale(const float (&scale)[2]) {
    if (!__any_sync(0xffffffffu, scale[0] != 1 || scale[1] != 1)) return;
#pragma unroll
    for (int i = 0; i < kHalf / 2; ++i) o[i] *= scale[i >> 1 & 1];
  }

  __device__ __forceinline__ void scores(float (&s)[kKeys / 2]) const {
    const uint64_t q = wgmma_tile_k(shared.q);
    const uint64_t k = wgmma_advance(wgmma_tile_k(shared.k), at.stage * kTile);
    constexpr bool kApart = S.scaled && S.rotary > 0;
    if constexpr (kApart) {
#pragma unroll
      for (int c = S.latent / 64; c < Shared<S>::kChunks; ++c)
        wgmma_row<kKeys, kInput>(s, wgmma_advance(q, c * kQueryBytes),
                                 wgmma_advance(k, c * kChunkBytes), c > S.latent / 64);
      wgmma_commit();
      wgmma_wait<0>();
      wgmma_pin(s);
#pragma unroll
      for (float& x : s) x *= ratio;
      wgmma_fence();
    }
#pragma unroll
    for (int c = 0; c < (kApart ? S.latent / 64 : Shared<S>::kChunks); ++c)
      wgmma_row<kKeys, kInput>(s, wgmma_advance(q, c * kQueryBytes),
                               wgmma_advance(k, c * kChunkBytes), kApart || c > 0);
    wgmma_commit();
  }

  /// The warpgroup that computes scores; the other one runs follow(). Returns log2 of sums.
  __device__ __forceinline__ void lead(float (&lse)[2]) {
    const float nothing = -DeviceMath::infinity();
    const int32_t tiles = __reduce_min_sync(0xffffffffu, part.tiles<kKeys>());
    float s[kKeys / 2], most[2] = {nothing, nothing}, sum[2] = {0, 0};
    uint32_t a[kKeys / 4];
    int32_t n = part.begin;
    uint32_t parity = 1;
    // Computes the powers of the tile from n on, in registers and in shared memory.
    const auto powers = [&] {
      const int32_t first = n + lane % 4 * 2;
      float peak[2] = {most[0], most[1]}, scale[2], base[2];
#pragma unroll
      for (int i = 0; i < kKeys / 2; ++i) {
        s[i] = first + i / 4 * 8 + (i & 1) < part.end ? s[i] * factor : nothing;
        peak[i >> 1 & 1] = fmaxf(peak[i >> 1 & 1], s[i]);
      }
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        peak[r] = fmaxf(peak[r], __shfl_xor_sync(0xffffffffu, peak[r], 1));
        peak[r] = fmaxf(peak[r], __shfl_xor_sync(0xffffffffu, peak[r], 2));
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
      shared.p_empty->wait(parity);
      parity ^= 1;
#pragma unroll
      for (int i = 0; i < kKeys / 4; ++i) {
        const uint32_t place = (row + i % 2 * 8) * 128 + i / 2 * 16 + lane % 4 * 4;
        *reinterpret_cast<uint32_t*>(shared.p + swizzle_128(place)) = a[i];
      }
      if (lane % 4 == 0) shared.scales[row] = scale[0], shared.scales[row + 8] = scale[1];
      fence_async_shared();
      shared.p_full->arrive();
      rescale(scale);
    };
    const auto mix = [&] {
      wgmma_fence();
      const uint64_t v = values();
#pragma unroll
      for (int i = 0; i < kKeys / 16; ++i)
        wgmma_from_registers<kHalf, kInput>(o, a + 4 * i, wgmma_advance(v, i * 2048));
      wgmma_commit();
    };
    if (tiles > 0) {
      shared.q_full->wait(0);
      shared.k_full[at.stage].wait(at.parity);
      wgmma_fence();
      scores(s);
      wgmma_wait<0>();
      wgmma_pin(s);
      powers();
#pragma unroll 1
      for (int32_t i = 1; i < tiles; ++i) {
        mix();
        Mbarrier& done = shared.k_empty[at.stage];
        at.advance(), n += kKeys;
        shared.k_full[at.stage].wait(at.parity);
        wgmma_fence();
        scores(s);
        wgmma_wait<1>();
        wgmma_pin(o);
        release(done);
        wgmma_wait<0>();
        wgmma_pin(s);
        powers();
      }
      mix();
      wgmma_wait<0>();
      wgmma_pin(o);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 1);
      sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 2);
      const float all = sum[r] * DeviceMath::exp2(-kRaise);
      lse[r] = all == 0 ? nothing : most[r] + ::log2f(all);
      if (lane % 4 == 0) shared.inverses[row + 8 * r] = sum[r] == 0 ? 0 : 1 / sum[r];
    }
  }
  __device__ __forceinline__ void follow() {
    const int32_t tiles = __reduce_min_sync(0xffffffffu, part.tiles<kKeys>());
#pragma unroll 1
    for (int32_t i = 0; i < tiles; ++i, at.advance()) {
      shared.k_full[at.stage].wait(at.parity);
      shared.p_full->wait(i & 1);
      const float scale[2] = {shared.scales[row], shared.scales[row + 8]};
      rescale(scale);
      wgmma_fence();
      const uint64_t powers = wgmma_tile_k(shared.p), v = values();
      if constexpr (kKeys == 64) {
        wgmma_row<kHalf, kInput, WgmmaMajor::kK, WgmmaMajor::kMN>(o, powers, v, 1);
      } else {
#pragma unroll
        for (int i = 0; i < kKeys / 16; ++i)
          wgmma<kHalf, kInput, WgmmaMajor::kK, WgmmaMajor::kMN>(o, wgmma_advance(powers, i * 32),
                                                                wgmma_advance(v, i * 2048), 1);
      }
      wgmma_commit();
      wgmma_wait<0>();
      wgmma_pin(o);
      release(shared.k_empty[at.stage]);
      release(*shared.p_empty);
    }
  }

  __device__ __forceinline__ void store(const float (&lse)[2]) const {
    const MlaParams& p = g.p;
    const int64_t t = part.token;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int32_t own = row + 8 * r;
      if (own >= part.count) continue;
      const int64_t h = part.head + own, place = (t * p.heads + h) * p.parts + part.index;
      const float inverse = shared.inverses[own] * latent_scale;
      const int32_t column = half * kHalf + lane % 4 * 2;
      if (half == 0 && lane % 4 == 0) {
        if (p.parts > 1)
          p.part_lse[place] = lse[r];
        else
          static_cast<float*>(p.lse)[t * p.lse_at[0] + h * p.lse_at[1]] = lse[r] * 0.69314718f;
      }
#pragma unroll
      for (int i = 0; i < kHalf / 8; ++i) {
        const float x = o[4 * i + 2 * r] * inverse, y = o[4 * i + 2 * r + 1] * inverse;
        const int64_t at_column = column + i * 8;
        if (p.parts > 1)
          *reinterpret_cast<float2*>(p.part_o + place * S.latent + at_column) = {x, y};
        else
          *reinterpret_cast<uint32_t*>(static_cast<char*>(p.o) +
                                       2 * (t * p.o_at[0] + h * p.o_at[1] + at_column)) =
              pack_pair<S.type>(x, y);
      }
    }
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
  if (threadIdx.x == 0) {
    tma_prefetch_map(g.q_nope);
    if constexpr (!is_f8(S.cache)) tma_prefetch_map(g.ckv);
    shared.start();
  }
  // The blocks of a token's heads are adjacent: they read the same keys.
  const uint32_t of_heads = blockIdx.x / static_cast<uint32_t>(p.blocks);
  const auto token = static_cast<int32_t>(of_heads / static_cast<uint32_t>(p.parts));
  Part part{};
  part.token = token, part.index = static_cast<int32_t>(of_heads) - token * p.parts;
  part.head = static_cast<int32_t>(blockIdx.x - of_heads * p.blocks) * kRows;
  part.count = min(kRows, p.heads - part.head);
  __syncthreads();
  wait_for_dependencies();
  const auto length =
      static_cast<int32_t>(min(min(int64_t{p.entries} * S.page, int64_t{0x7fffffff}),
                               max(int64_t{0}, int64_t{p.lengths[token * p.lengths_at]})));
  const int32_t tiles = (length + kKeys - 1) / kKeys, share = (tiles + p.parts - 1) / p.parts;
  part.begin = static_cast<int32_t>(min(int64_t{length}, int64_t{share} * part.index * kKeys));
  part.end = static_cast<int32_t>(min(int64_t{length}, part.begin + int64_t{share} * kKeys));

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
    float lse[2] = {};
    if (group == 1)
      of.lead(lse);
    else
      of.follow();
    asm volatile("barrier.cta.sync 2, 256;" ::: "memory");
    of.store(lse);
  }
}

}  // namespace dlblas::attention
