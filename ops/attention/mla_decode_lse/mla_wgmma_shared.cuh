// The shared memory of a block of mla_wgmma, and its share of the work. Read next: mla_wgmma.cuh.
#pragma once

#include "device/tma.cuh"
#include "device/wgmma.cuh"
#include "ops/attention/mla_decode_lse/mla_decode.cuh"

namespace dlblas::attention::mla_wgmma_detail {

inline constexpr int kRows = 64, kStages = 2, kThreads = 3 * 128;
inline constexpr int kQueryBytes = kRows * 128;  // 64 rows of 64 columns
inline constexpr int kSlots = 8;                 // of 8 keys each, in codes
inline constexpr int kWideners = 3;              // warps

/// Keys of a tile. Codes wait in shared memory until they are widened, which leaves less of it.
constexpr int keys_of(const MlaTraits& s) { return is_f8(s.cache) ? 48 : 64; }

/// Keys per copy, all in one page.
constexpr int box_of(int page) {
  int keys = 8;
  while (keys < 64 && page % (2 * keys) == 0) keys *= 2;
  return keys;
}

template <MlaTraits S>
struct Shared {
  static constexpr bool kCodes = is_f8(S.cache);
  static constexpr int kKeys = keys_of(S), kChunkBytes = kKeys * 128;
  static constexpr int kChunks = (S.latent + S.rotary) / 64, kTile = kChunks * kChunkBytes;
  static constexpr int kQuery = kChunks * kQueryBytes;
  static constexpr int kSlot = 8 * (S.latent + S.rotary);
  unsigned char *q, *k, *p, *codes;  // tiles of chunks of 64 columns; powers; slots
  float *scales, *inverses;          // of rows: for what was summed before, and at the end
  Mbarrier *q_full, *k_full, *k_empty, *p_full, *p_empty, *landed;
  Mbarrier *slot_full, *slot_empty;

  __device__ __forceinline__ explicit Shared(unsigned char* raw) {
    q = raw + (1024 - shared_address(raw) % 1024) % 1024;
    k = q + kQuery, p = k + kStages * kTile, codes = p + kQueryBytes;
    scales = reinterpret_cast<float*>(codes + (kCodes ? kSlots * kSlot : 0));
    inverses = scales + kRows;
    q_full = reinterpret_cast<Mbarrier*>(inverses + kRows);
    k_full = q_full + 1, k_empty = k_full + kStages;
    p_full = k_empty + kStages, p_empty = p_full + 1, landed = p_empty + 1;
    slot_full = landed + 1, slot_empty = slot_full + kSlots;
  }
  __device__ __forceinline__ void start() const {
    q_full->init(1), landed->init(1), p_full->init(128), p_empty->init(4);
    for (int s = 0; s < kStages; ++s) k_full[s].init(kCodes ? kWideners : 1), k_empty[s].init(8);
    for (int s = 0; s < (kCodes ? kSlots : 0); ++s) slot_full[s].init(32), slot_empty[s].init(1);
    fence_mbarrier_init();
  }
};

/// The rows and keys of a block.
struct Part {
  int32_t token, head, count;  // heads [head, head + count)
  int32_t index, begin, end;   // keys
  template <int kKeys>
  __device__ __forceinline__ int32_t tiles() const {
    return (end - begin + kKeys - 1) / kKeys;
  }
};

__device__ __forceinline__ void release(Mbarrier& empty) {
  if (threadIdx.x % 32 == 0) empty.arrive();
}

/// One thread copies the queries.
template <MlaTraits S>
__device__ __forceinline__ void copy_queries(const MlaWgmmaParams& g, const Shared<S>& shared,
                                             const Part& part) {
  shared.q_full->arrive_expect_tx(Shared<S>::kQuery);
#pragma unroll 1
  for (int c = 0; c < Shared<S>::kChunks; ++c) {
    const bool first = c < S.latent / 64;
    tma_load(shared.q + c * kQueryBytes, first ? g.q_nope : g.q_pe, *shared.q_full,
             Tile3{(first ? c : c - S.latent / 64) * 64, part.head, part.token});
  }
}

}  // namespace dlblas::attention::mla_wgmma_detail
