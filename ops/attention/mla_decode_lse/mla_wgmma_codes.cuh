// Keys of f8 for mla_wgmma: one warp copies codes to slots of eight keys, three widen them,
// exactly, into the stages that WGMMA reads. A warp that widens has no copy in flight: the fence
// before WGMMA would wait for it. Read next: mla_wgmma.cuh, ops/attention/cuda/f8_pair.cuh.
#pragma once

#include "ops/attention/cuda/f8_pair.cuh"
#include "ops/attention/mla_decode_lse/mla_wgmma_shared.cuh"

namespace dlblas::attention::mla_wgmma_detail {

/// The copying warp: any pages and strides, rows of 16-byte aligned contiguous columns. Keys past
/// the last one are zeros. A lane copies a quarter of a key of each eight.
template <MlaTraits S>
__device__ __forceinline__ void copy_codes(const MlaWgmmaParams& g, const Shared<S>& shared,
                                           const Part& part) {
  using Tiles = Shared<S>;
  constexpr int kLatents = S.latent / 64;
  const MlaParams& p = g.p;
  const int lane = static_cast<int>(threadIdx.x) % 32, row = lane / 4, column = lane % 4 * 16;
  const int32_t tiles = part.tiles<Tiles::kKeys>(), eights = tiles * (Tiles::kKeys / 8);
  const int32_t* const table = p.table + part.token * p.table_at[0];
  // Pages of 32 keys, one per lane: of these, the next, and the ones after.
  const auto pages_from = [&](int64_t first) {
    const int64_t n = first + lane;
    return n < part.end ? table[static_cast<int32_t>(n) / S.page * p.table_at[1]] : 0;
  };
  int32_t pages = 0, next = pages_from(part.begin), after = pages_from(int64_t{part.begin} + 32);
  const uint32_t slots = shared_address(shared.codes) + lane * 16;
  RingPlace<kSlots> slot;
#pragma unroll 1
  for (int32_t eight = 0; eight < eights; ++eight, slot.advance()) {
    const int64_t first = part.begin + int64_t{eight} * 8, n = first + row;
    if (eight % 4 == 0) pages = next, next = after, after = pages_from(first + 64);
    const int64_t page = __shfl_sync(0xffffffffu, pages, eight % 4 * 8 + row);
    const bool there = n < part.end;
    const auto in_page = static_cast<int32_t>(n) % S.page;
    const char* const ckv = static_cast<const char*>(p.ckv) +
                            (there ? page * p.ckv_at[0] + in_page * p.ckv_at[1] + column : 0);
    const char* const kpe = static_cast<const char*>(p.kpe) +
                            (there ? page * p.kpe_at[0] + in_page * p.kpe_at[1] + column : 0);
    shared.slot_empty[slot.stage].wait(slot.parity ^ 1);
#pragma unroll
    for (int i = 0; i < Tiles::kChunks; ++i)
      cp_async(slots + slot.stage * Tiles::kSlot + i * 512,
               i < kLatents ? ckv + i * 64 : kpe + (i - kLatents) * 64, there ? 16 : 0);
    cp_async_arrive(shared.slot_full[slot.stage]);
  }
  cp_async_wait<0>();
}

/// Warp `warp` of those that widen: each has every third eight of keys. A lane has 16
/// columns of each 64 of a key, in a slot as the copying warp's lanes put them there.
template <MlaTraits S>
__device__ __forceinline__ void widen_codes(const Shared<S>& shared, const Part& part, int warp) {
  using Tiles = Shared<S>;
  constexpr int kUnits = Tiles::kChunks, kEights = Tiles::kKeys / 8;
  static_assert(kEights % kWideners == 0);
  constexpr int kTogether = kUnits % 3 == 0 ? 3 : kUnits % 2 == 0 ? 2 : kUnits;
  const int lane = static_cast<int>(threadIdx.x) % 32, row = lane / 4;
  const int32_t tiles = part.tiles<Tiles::kKeys>();
  const uint32_t slots = shared_address(shared.codes) + lane * 16;
  const uint32_t stages =
      shared_address(shared.k) + warp * 1024 + row * 128 + ((lane % 4 * 2 ^ row) << 4);
  RingPlace<kStages> at;
  RingPlace<kSlots> slot;
  slot.advance(warp);
#pragma unroll 1
  for (int32_t i = 0; i < tiles; ++i, at.advance()) {
    for (int group = 0; group < 2; ++group)
      shared.k_empty[at.stage * 2 + group].wait(at.parity ^ 1);
#pragma unroll 1
    for (int e = 0; e < kEights; e += kWideners, slot.advance(kWideners)) {
      const uint32_t from = slots + slot.stage * Tiles::kSlot;
      const uint32_t to = stages + at.stage * Tiles::kTile + e * 1024;
      shared.slot_full[slot.stage].wait(slot.parity);
#pragma unroll
      for (int first = 0; first < kUnits; first += kTogether) {
        uint32_t words[kTogether][4];
#pragma unroll
        for (int u = 0; u < kTogether; ++u) load_shared(words[u], from + (first + u) * 512);
#pragma unroll
        for (int u = 0; u < kTogether; ++u)
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            uint32_t wide[4];
#pragma unroll
            for (int j = 0; j < 4; ++j)
              wide[j] = widen_pair<S.cache, S.type>(words[u][2 * half + j / 2] >> j % 2 * 16);
            store_shared((to ^ half * 16) + (first + u) * Tiles::kChunkBytes, wide);
          }
      }
      __syncwarp();
      if (lane == 0) shared.slot_empty[slot.stage].arrive();
    }
    fence_async_shared();
    __syncwarp();
    if (lane < 2) shared.k_full[at.stage * 2 + lane].arrive();
  }
}

}  // namespace dlblas::attention::mla_wgmma_detail
