// The shared memory of a block of mla_wgmma, and its share of the work. Read next: mla_wgmma.cuh.
#pragma once

#include "device/cluster.cuh"
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

/// A stage is a tile of keys in two groups, each copied as soon as what it replaces is no longer
/// needed: first the half of the latents that the tile's own warpgroup multiplies, then the other
/// half and the rotary columns. After the scores, the tile's powers replace the latter.
template <MlaTraits S>
struct Shared {
  static constexpr bool kCodes = is_f8(S.cache);
  static constexpr int kKeys = keys_of(S), kChunkBytes = kKeys * 128;
  static constexpr int kChunks = (S.latent + S.rotary) / 64, kTile = kChunks * kChunkBytes;
  static constexpr int kHalf = S.latent / 128;  // chunks of half of the latents
  static constexpr int kQuery = kChunks * kQueryBytes;
  static constexpr int kSlot = 8 * (S.latent + S.rotary);
  // At the end, of rows of sums: a block's own, and half as many of the other's. Floats of a row: 4
  // rows hit all banks.
  static constexpr int kPitch = S.latent + 8, kSums = kRows / 2 * 3 * kPitch * 4;
  static constexpr int kPowers = S.rotary == 0 ? kStages * kChunkBytes : 0;
  static constexpr int kCodeBytes = kCodes ? kSlots * kSlot : 0;
  static_assert(kSums <= kQuery + kStages * kTile + kPowers + kCodeBytes);
  unsigned char *q, *k, *p, *codes;  // tiles of chunks of 64 columns; powers; slots
  // Of rows, for each stage: what sums of before are multiplied by, and the maximum; at the end,
  // what those of each block of a cluster are.
  float *scales, *maxima, *weights;
  Mbarrier *q_full, *k_full, *k_empty, *p_full, *landed, *received;
  Mbarrier *slot_full, *slot_empty;

  __device__ __forceinline__ explicit Shared(unsigned char* raw) {
    q = raw + (1024 - shared_address(raw) % 1024) % 1024;
    k = q + kQuery, p = k + kStages * kTile;
    codes = p + kPowers;
    scales = reinterpret_cast<float*>(codes + kCodeBytes);
    maxima = scales + kStages * kRows, weights = maxima + kStages * kRows;
    q_full = reinterpret_cast<Mbarrier*>(weights + 2 * kRows);
    k_full = q_full + 1, k_empty = k_full + 2 * kStages;
    p_full = k_empty + 2 * kStages, landed = p_full + kStages, received = landed + 1;
    slot_full = received + 1, slot_empty = slot_full + kSlots;
  }
  __device__ __forceinline__ void start() const {
    q_full->init(1), landed->init(1), received->init(1);
    for (int s = 0; s < kStages; ++s) p_full[s].init(128);
    for (int s = 0; s < 2 * kStages; ++s)
      k_full[s].init(kCodes ? kWideners : 1), k_empty[s].init(4);
    for (int s = 0; s < (kCodes ? kSlots : 0); ++s) slot_full[s].init(32), slot_empty[s].init(1);
    fence_mbarrier_init();
  }
  /// At the end: the sums of a row, and of kRows + i the other block's of its i-th row.
  __device__ __forceinline__ float* row(int32_t row) const {
    return reinterpret_cast<float*>(q) + row * kPitch;
  }
  /// A stage's powers, [keys, 64 heads] in the 128-byte swizzle.
  __device__ __forceinline__ unsigned char* powers(uint32_t stage) const {
    return S.rotary == 0 ? p + stage * kChunkBytes : k + (stage + 1) * kTile - kChunkBytes;
  }
};

/// Blocks of this cluster.
__device__ __forceinline__ uint32_t cluster_size() {
  uint32_t size;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return size;
}

/// The rows and keys of a block.
struct Part {
  int32_t token, head, count;  // heads [head, head + count)
  int32_t index, parts;        // of the token's keys, in all clusters
  uint32_t blocks, rank;       // of the cluster: 1 or 2; this one's
  int32_t begin, end;          // keys

  template <int kKeys>
  __device__ __forceinline__ int32_t tiles() const {
    return (end - begin + kKeys - 1) / kKeys;
  }
  /// Its share of the token's keys, of which there are at most `most`.
  template <int kKeys>
  __device__ __forceinline__ void take_keys(const MlaParams& p, int64_t most) {
    const auto length = static_cast<int32_t>(min(
        min(most, int64_t{0x7fffffff}), max(int64_t{0}, int64_t{p.lengths[token * p.lengths_at]})));
    const int32_t all = (length + kKeys - 1) / kKeys, share = (all + parts - 1) / parts;
    begin = static_cast<int32_t>(min(int64_t{length}, int64_t{share} * index * kKeys));
    end = static_cast<int32_t>(min(int64_t{length}, begin + int64_t{share} * kKeys));
  }
};

/// The blocks of a cluster have consecutive parts of the same heads. The clusters of a token's
/// heads are adjacent, since they read the same keys.
__device__ __forceinline__ Part part_of(const MlaParams& p) {
  Part part{};
  part.blocks = cluster_size(), part.rank = cluster_rank();
  const uint32_t cluster = blockIdx.x / part.blocks, parts = static_cast<uint32_t>(p.parts);
  const uint32_t of_heads = cluster / static_cast<uint32_t>(p.blocks), token = of_heads / parts;
  part.token = static_cast<int32_t>(token);
  part.index = static_cast<int32_t>((of_heads - token * parts) * part.blocks + part.rank);
  part.parts = static_cast<int32_t>(parts * part.blocks);
  part.head = static_cast<int32_t>(cluster - of_heads * p.blocks) * kRows;
  part.count = min(kRows, p.heads - part.head);
  return part;
}

/// A copy of keys that no other block reads, or only at about the same time: L2 need not keep them.
/// H200, 30 November 2026: 1 to 4 % less time.
__device__ __forceinline__ void load_once(void* to, const TensorMap& map, Mbarrier& full,
                                          Tile3 at) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(&full)), "r"(at.x), "r"(at.y), "r"(at.z),
      "l"(cache_policy(CacheHint::kFirst))
      : "memory");
}

/// Stores the transposes of four 8 × 8 tiles of 16 bits; `to` is this lane's column.
__device__ __forceinline__ void store_transposed(uint32_t to, const uint32_t (&w)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
               "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
               : "memory");
}

/// Each warp releases what it has read.
__device__ __forceinline__ void release(Mbarrier& empty) {
  if (threadIdx.x % 32 == 0) empty.arrive();
}

/// Brings the start of a token's table into L2 while its length is on the way.
__device__ __forceinline__ void prefetch_table(const MlaParams& p, const Part& part) {
  const int32_t entry = static_cast<int32_t>(threadIdx.x) * 32;
  if (entry < p.entries)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p.table + part.token * p.table_at[0] +
                                                  entry * p.table_at[1]));
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
