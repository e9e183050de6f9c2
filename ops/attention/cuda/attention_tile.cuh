// What the CUDA kernels of attention share: the rows of a block, the keys that a row sees, and the
// step from products to scores. The keys that a row sees are an interval, monotone in its position;
// this determines which blocks of keys a tile processes, and which of them need no mask. Read next:
// attention_mma.cuh, attention_rows.cuh.
#pragma once

#include "device/attention/online_softmax.cuh"
#include "device/vec.cuh"
#include "ops/attention/cuda/attention_cuda_config.hpp"

namespace dlblas::attention {

struct KeyRange {
  int32_t first, end;
};

/// Rows of one sequence: of one head, or of all heads that share a head of k.
struct Tile {
  int32_t batch;  // of dense tensors; the sequence of packed ones
  int32_t head;   // of q, the first of `pack`
  int32_t first;  // row of the tile: position · pack + head
  int32_t q_from, q_rows, k_from, k_rows;

  __device__ __forceinline__ bool empty(const AttentionParams& p) const {
    return first < 0 || first >= q_rows * p.pack;
  }
  /// The same for a tile of keys.
  __device__ __forceinline__ bool empty_of_keys() const { return first < 0 || first >= k_rows; }
  __device__ __forceinline__ int32_t position(const AttentionParams& p, int32_t row) const {
    return p.pack == 1 ? first + row : (first + row) / p.pack;
  }
  __device__ __forceinline__ int32_t head_of(const AttentionParams& p, int32_t row) const {
    return p.pack == 1 ? head : head + (first + row) % p.pack;
  }
};

/// Whether offsets or lse are not aligned to 4 bytes, and are accessed by bytes.
__device__ __forceinline__ bool by_bytes(const void* data) {
  return reinterpret_cast<uint64_t>(data) % 4 != 0;
}
__device__ __forceinline__ int32_t offset_at(const int32_t* cu, int64_t at) {
  const uint32_t word = by_bytes(cu) ? load_vec<DType::kI32, 1, 1>(cu, at).words[0]
                                     : load_vec<DType::kI32, 1, 4>(cu, at).words[0];
  return static_cast<int32_t>(word);
}

/// An f32 at any alignment.
__device__ __forceinline__ float float_at(const float* data, int64_t at) {
  return by_bytes(data) ? unpack_one<DType::kF32>(load_vec<DType::kF32, 1, 1>(data, at).words[0])
                        : data[at];
}

/// Where packed sequence n begins; the first begins at 0. One more follows the last: the rows that
/// belong to no sequence, and see nothing.
__device__ __forceinline__ int32_t start_of(const AttentionParams& p, bool keys, int32_t n) {
  const int32_t most = keys ? p.k_rows : p.q_rows;
  if (n == 0 || n > p.batches) return n == 0 ? 0 : most;
  const int32_t at = keys ? offset_at(p.cu_k, n * p.cu_k_at) : offset_at(p.cu_q, n * p.cu_q_at);
  return min(max(at, 0), most);
}

/// Tile order for L2 reuse. Tiles are numbered with the first tiles of all heads first: `tiles`
/// tiles of each of `all` heads. Returns the number of the tile at position `index` if blocks walk
/// all tiles of `together` heads before those of others, whose keys and values then hit L2.
__device__ __forceinline__ uint32_t index_together(uint32_t index, uint32_t tiles, uint32_t all,
                                                   uint32_t together) {
  const uint32_t group = tiles * together, before = index / group * together;
  const uint32_t heads = min(all - before, together), at = index % group;
  return at / heads * all + before + at % heads;
}

/// The tile of block `index`, of kRows rows of q or of k. For q the last rows come first, which see
/// the most keys; for k the first, which the most queries see. Packed: the tiles of a sequence
/// begin at its first row / kRows + its number, so that no two sequences share one. Not kTogether:
/// p.together is 0.
template <bool kPacked, int kRows, bool kKeys = false, bool kTogether = !kKeys>
__device__ __forceinline__ Tile tile_at(const AttentionParams& p, uint32_t index) {
  Tile t;
  const int32_t pack = kKeys ? 1 : p.pack;
  const uint32_t heads = static_cast<uint32_t>(kKeys ? p.heads : p.heads * p.group / pack);
  const uint32_t all = kPacked ? heads : heads * static_cast<uint32_t>(p.batches);
  if constexpr (kTogether) {
    const auto together = static_cast<uint32_t>(p.together);
    if (together > 0 && together < all)
      index = index_together(index, static_cast<uint32_t>(p.tiles), all, together);
  }
  const uint32_t at = index / all, which = index - at * all;
  const int32_t tile = kKeys ? static_cast<int32_t>(at) : p.tiles - 1 - static_cast<int32_t>(at);
  t.head = static_cast<int32_t>(which % heads) * pack;
  if constexpr (kPacked) {
    int32_t low = 0, high = p.batches + 1;  // the last sequence that begins at or before the tile
    while (high - low > 1) {
      const int32_t middle = (low + high) / 2;
      const bool before = start_of(p, kKeys, middle) * pack / kRows + middle <= tile;
      low = before ? middle : low, high = before ? high : middle;
    }
    t.batch = low;
    t.q_from = start_of(p, false, low), t.k_from = start_of(p, true, low);
    t.q_rows = max(start_of(p, false, low + 1) - t.q_from, 0);
    t.k_rows = max(start_of(p, true, low + 1) - t.k_from, 0);
    t.first = (tile - (kKeys ? t.k_from : t.q_from) * pack / kRows - low) * kRows;
    if (low == p.batches) (kKeys ? t.q_rows : t.k_rows) = 0;  // rows of no sequence
  } else {
    t.batch = static_cast<int32_t>(which / heads);
    t.q_from = t.k_from = 0, t.q_rows = p.q_rows, t.k_rows = p.k_rows;
    t.first = tile * kRows;
  }
  return t;
}

/// The keys that a position sees; the last query aligns with the last key.
__device__ __forceinline__ KeyRange visible(const AttentionParams& p, const Tile& t,
                                            int32_t position) {
  const int32_t at = position + t.k_rows - t.q_rows;
  KeyRange keys{0, t.k_rows};
  if (p.causal) keys.end = min(keys.end, at + 1);
  if (p.window >= 0) {
    keys.first = max(0, at - p.window);
    if (!p.causal && p.window < t.q_rows) keys.end = min(keys.end, at + p.window + 1);
  }
  keys.end = max(keys.end, keys.first);
  return keys;
}

/// The positions whose queries see a key.
__device__ __forceinline__ KeyRange seeing(const AttentionParams& p, const Tile& t, int32_t key) {
  const int32_t at = key - t.k_rows + t.q_rows;
  KeyRange rows{0, t.q_rows};
  if (p.causal) rows.first = max(rows.first, at);
  if (p.window >= 0) {
    if (p.window < t.k_rows + t.q_rows) rows.end = min(rows.end, at + p.window + 1);
    if (!p.causal) rows.first = max(rows.first, at - p.window);
  }
  rows.end = max(rows.end, rows.first);
  return rows;
}

template <DType T, Reach kReach>
__device__ __forceinline__ float load_one(const void* base, int64_t offset) {
  constexpr int kAlign = kReach == Reach::kByte ? 1 : size_of(T);
  return unpack_one<T>(load_vec<T, 1, kAlign>(base, offset).words[0]);
}
template <DType T, Reach kReach>
__device__ __forceinline__ void store_one(void* base, int64_t offset, float value) {
  constexpr int kAlign = kReach == Reach::kByte ? 1 : size_of(T);
  Vec<T, 1> v;
  v.words[0] = pack_one<T>(value);
  store_vec<T, 1, kAlign>(base, offset, v);
}

__device__ __forceinline__ void store_lse(const AttentionParams& p, const Tile& t, int32_t head,
                                          int64_t row, float value) {
  const int64_t at = t.batch * p.lse_at[0] + head * p.lse_at[1] + row * p.lse_at[2];
  if (by_bytes(p.lse))
    store_one<DType::kF32, Reach::kByte>(p.lse, at, value);
  else
    p.lse[at] = value;
}

/// True if scores are more than the product of q and k with a positive factor.
template <AttentionTraits S>
inline constexpr bool kStaged = S.cap || S.bias != DType::kAbsent;

/// Descale `i` (that of q, k or v), for a tile that sees a key.
__device__ __forceinline__ float descale_of(const AttentionParams& p, int i, const Tile& t,
                                            int32_t kv_head) {
  const float* const data = p.descale[i];
  if (data == nullptr) return 1;
  const int64_t at = t.batch * p.descale_at[i][0] + kv_head * p.descale_at[i][1];
  return float_at(data, at);
}
/// The factor of products of q and k.
template <AttentionTraits S>
__device__ __forceinline__ float scale_of(const AttentionParams& p, const Tile& t,
                                          int32_t kv_head) {
  if constexpr (!is_f8(S.from)) return p.scale;
  return p.scale * descale_of(p, 0, t, kv_head) * descale_of(p, 1, t, kv_head);
}

/// The factor from score()'s result to a logit in base 2.
template <AttentionTraits S>
__device__ __forceinline__ float factor_of(float scale) {
  return kStaged<S> || scale == 0 ? kLog2E : fabsf(scale) * kLog2E;  // −inf · 0 is NaN
}
template <AttentionTraits S>
__device__ __forceinline__ float factor_of(const AttentionParams& p) {
  return factor_of<S>(p.scale);
}
/// One score, of a row and key that exist; `bias`: the row's first element. `slope`: the derivative
/// of the cap.
template <AttentionTraits S>
__device__ __forceinline__ float scaled_score(const AttentionParams& p, float scale, float dot,
                                              int64_t bias, int32_t key, float& slope) {
  slope = 1;
  if constexpr (!kStaged<S>) return scale > 0 ? dot : scale < 0 ? -dot : dot * 0.0f;
  float s = dot * scale;
  if constexpr (S.cap) {
    // tanh x = 1 − 2 / (1 + e^2x), within 4 ulp of 1. All scores have one factor: a division of
    // each took two fifths of cuda_wgmma's time. It is finite, since 0 · ∞ is NaN.
    constexpr float kMost = 0x1.fffffep127f;
    const float inner = fminf(fmaxf(2 * kLog2E * scale / p.cap, -kMost), kMost);
    const float power = DeviceMath::exp2(dot * inner);
    const float t = fmaf(-2.0f, DeviceMath::reciprocal(1.0f + power), 1.0f);
    slope = (1 - t) * (1 + t);
    s = p.cap * t;
  }
  if constexpr (S.bias != DType::kAbsent)
    s += load_one < S.bias, S.bias_in == BiasAccess::kByte
                                ? Reach::kByte
                                : Reach::kElement > (p.bias, bias + key * p.bias_at[3]);
  return s;
}
template <AttentionTraits S>
__device__ __forceinline__ float scaled_score(const AttentionParams& p, float scale, float dot,
                                              int64_t bias, int32_t key) {
  float slope;
  return scaled_score<S>(p, scale, dot, bias, key, slope);
}
template <AttentionTraits S>
__device__ __forceinline__ float score(const AttentionParams& p, float dot, int64_t bias,
                                       int32_t key, float& slope) {
  return scaled_score<S>(p, p.scale, dot, bias, key, slope);
}
template <AttentionTraits S>
__device__ __forceinline__ float score(const AttentionParams& p, float dot, int64_t bias,
                                       int32_t key) {
  return scaled_score<S>(p, p.scale, dot, bias, key);
}

}  // namespace dlblas::attention
