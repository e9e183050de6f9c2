// What the CUDA kernels of attention share: which rows a block has, what a row sees, and what
// becomes of scores. Keys that a row sees are an interval, monotone in its position: which blocks a
// tile meets and which of them need no test follows from that. Read next: attention_mma.cuh,
// attention_rows.cuh.
#pragma once

#include "device/attention/online_softmax.cuh"
#include "device/vec.cuh"
#include "ops/attention/attention_cuda_config.hpp"

namespace dlblas::attention {

struct KeyRange {
  int32_t first, end;
};

/// Rows of one head, or of all heads over one of k, of one sequence.
struct Tile {
  int32_t batch;  // of dense tensors; the sequence of packed ones
  int32_t head;   // of q, the first of `pack`
  int32_t first;  // row of the tile: position · pack + head
  int32_t q_from, q_rows, k_from, k_rows;

  __device__ __forceinline__ bool empty(const AttentionParams& p) const {
    return first < 0 || first >= q_rows * p.pack;
  }
  __device__ __forceinline__ int32_t position(const AttentionParams& p, int32_t row) const {
    return p.pack == 1 ? first + row : (first + row) / p.pack;
  }
  __device__ __forceinline__ int32_t head_of(const AttentionParams& p, int32_t row) const {
    return p.pack == 1 ? head : head + (first + row) % p.pack;
  }
};

/// An offset, or a place for lse, wherever it lies.
__device__ __forceinline__ bool by_bytes(const void* data) {
  return reinterpret_cast<uint64_t>(data) % 4 != 0;
}
__device__ __forceinline__ int32_t offset_at(const int32_t* cu, int64_t at) {
  const uint32_t word = by_bytes(cu) ? load_vec<DType::kI32, 1, 1>(cu, at).words[0]
                                     : load_vec<DType::kI32, 1, 4>(cu, at).words[0];
  return static_cast<int32_t>(word);
}

/// Block `index` of the grid, of tiles of kRows rows: the last rows first, which see most keys.
/// Packed: a sequence's tiles begin at cu / kRows + its number, so that no two share one; behind
/// the last sequence is one of the rows that belong to none, and see nothing.
template <bool kPacked, int kRows>
__device__ __forceinline__ Tile tile_at(const AttentionParams& p, uint32_t index) {
  Tile t;
  const uint32_t heads = static_cast<uint32_t>(p.heads * p.group / p.pack);
  const uint32_t all = kPacked ? heads : heads * static_cast<uint32_t>(p.batches);
  const uint32_t at = index / all, which = index - at * all;
  const int32_t tile = p.tiles - 1 - static_cast<int32_t>(at);
  t.head = static_cast<int32_t>(which % heads) * p.pack;
  if constexpr (kPacked) {
    const auto offset = [&](const int32_t* cu, int64_t step, int32_t n, int32_t most) {
      if (n == 0 || n > p.batches) return n == 0 ? 0 : most;
      return min(max(offset_at(cu, n * step), 0), most);
    };
    int32_t low = 0, high = p.batches + 1;  // the last sequence that begins at or before the tile
    while (high - low > 1) {
      const int32_t middle = (low + high) / 2;
      const bool before =
          (offset(p.cu_q, p.cu_q_at, middle, p.q_rows) * p.pack) / kRows + middle <= tile;
      low = before ? middle : low, high = before ? high : middle;
    }
    t.batch = low;
    t.q_from = offset(p.cu_q, p.cu_q_at, low, p.q_rows);
    t.q_rows = max(offset(p.cu_q, p.cu_q_at, low + 1, p.q_rows) - t.q_from, 0);
    t.k_from = offset(p.cu_k, p.cu_k_at, low, p.k_rows);
    t.k_rows = max(offset(p.cu_k, p.cu_k_at, low + 1, p.k_rows) - t.k_from, 0);
    if (low == p.batches) t.k_rows = 0;  // rows of no sequence
    t.first = (tile - t.q_from * p.pack / kRows - low) * kRows;
  } else {
    t.batch = static_cast<int32_t>(which / heads);
    t.q_from = t.k_from = 0, t.q_rows = p.q_rows, t.k_rows = p.k_rows;
    t.first = tile * kRows;
  }
  return t;
}

/// What a position sees: the last query is at the last key.
__device__ __forceinline__ KeyRange visible(const AttentionParams& p, const Tile& t,
                                            int32_t position) {
  const int32_t at = position + t.k_rows - t.q_rows;
  KeyRange keys{0, t.k_rows};
  if (p.causal) keys.end = min(keys.end, at + 1);
  if (p.window >= 0) {
    keys.first = max(0, at - p.window);
    if (!p.causal && p.window < t.k_rows) keys.end = min(keys.end, at + p.window + 1);
  }
  keys.end = max(keys.end, keys.first);
  return keys;
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

/// Are scores more than a product of q and k and a positive factor?
template <AttentionTraits S>
inline constexpr bool kStaged = S.cap || S.bias != DType::kAbsent;

/// From what score() returns to logits in base 2.
template <AttentionTraits S>
__device__ __forceinline__ float factor_of(const AttentionParams& p) {
  return kStaged<S> ? kLog2E : fabsf(p.scale) * kLog2E;
}
/// One score, of a row and key that exist; `bias`: the row's first element.
template <AttentionTraits S>
__device__ __forceinline__ float score(const AttentionParams& p, float dot, int64_t bias,
                                       int32_t key) {
  if constexpr (!kStaged<S>) return p.scale < 0 ? -dot : dot;
  float s = dot * p.scale;
  if constexpr (S.cap) {
    // tanh x = 1 − 2 / (1 + e^2x): to 4 units of the last place of 1.
    const float power = DeviceMath::exp2(s / p.cap * (2 * kLog2E));
    s = p.cap * fmaf(-2.0f, DeviceMath::reciprocal(1.0f + power), 1.0f);
  }
  if constexpr (S.bias != DType::kAbsent)
    s += load_one < S.bias,
        S.bias_bytes ? Reach::kByte : Reach::kElement > (p.bias, bias + key * p.bias_at[3]);
  return s;
}

}  // namespace dlblas::attention
