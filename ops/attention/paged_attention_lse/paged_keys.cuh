// The keys that a row of q sees, and where they are in a paged cache; scores and their powers of 2.
// Read next: paged_rows.cuh, paged_decode.cuh.
#pragma once

#include "device/row/values.cuh"
#include "device/vec.cuh"
#include "ops/attention/paged_attention_lse/paged_config.hpp"

namespace dlblas::attention {

/// −∞: the logarithm of an empty sum.
__device__ inline float nothing() { return -DeviceMath::infinity(); }

/// Keys [first, end).
struct Sight {
  int32_t first, end;
};

/// The sequence of row t of q: the last that begins at or before it; −1: none.
template <PagedTraits S>
__device__ inline int32_t sequence_of(const PagedParams& p, int32_t t) {
  if constexpr (!S.ragged) return t;
  int32_t low = 0, high = p.sequences;  // starts[low − 1] ≤ t < starts[high]
  while (low < high) {
    const int32_t middle = (low + high) / 2;
    if (p.starts[middle * p.starts_at] <= t)
      low = middle + 1;
    else
      high = middle;
  }
  const int32_t b = low - 1;
  return b >= 0 && t < p.starts[(b + 1) * p.starts_at] ? b : -1;
}

/// A sequence: its rows of q and its keys.
template <PagedTraits S>
struct Sequence {
  int32_t index, begin, end, length;
  const int32_t* table;

  __device__ Sequence(const PagedParams& p, int32_t b) : index(b), begin(b), end(b + 1) {
    if constexpr (S.ragged) {
      begin = max(0, p.starts[b * p.starts_at]);
      end = min(p.queries, p.starts[(b + 1) * p.starts_at]);
    }
    int32_t entries = p.entries;
    table = p.table + b * p.table_at[0];
    if (p.indptr) {
      const int32_t first = p.indptr[b * p.indptr_at];
      entries = min(entries, max(0, p.indptr[(b + 1) * p.indptr_at] - first));
      table += first * p.table_at[1];
    }
    const int64_t most = min(int64_t{entries} * S.page, int64_t{0x7fffffff});
    length = static_cast<int32_t>(min(most, max(int64_t{0}, int64_t{p.lengths[b * p.lengths_at]})));
  }
  __device__ Sight sight(const PagedParams& p, int32_t t) const {
    const int32_t position = length - (end - begin) + (t - begin);
    Sight s = {0, length};
    if constexpr (S.causal) s.end = min(length, max(0, position + 1));
    if constexpr (S.window) {
      s.first = max(0, position - p.window);
      const int64_t last = int64_t{position} + p.window + 1;
      s.end = static_cast<int32_t>(min(int64_t{s.end}, max(int64_t{0}, last)));
    }
    s.first = min(s.first, s.end);
    return s;
  }
  /// The page of key n; offset() locates the key in it.
  __device__ int64_t page(const PagedParams& p, int32_t n) const {
    return table[n / S.page * p.table_at[1]];
  }
  __device__ static int64_t offset(const int64_t (&at)[4], int64_t page, int32_t n, int32_t head) {
    return page * at[0] + n % S.page * at[1] + head * at[2];
  }
};

/// A score times log2 e. `factor` is scale · k_scale · log2 e, or scale · k_scale / softcap.
template <PagedTraits S>
__device__ inline float logit(const PagedParams& p, float score, float factor) {
  if constexpr (S.softcap)
    return p.softcap * kLog2E * ::tanhf(score * factor);
  else
    return score * factor;
}
/// `factor` of logit.
template <PagedTraits S>
__device__ inline float factor_of(const PagedParams& p) {
  const float scale = p.k_scale ? p.scale * *p.k_scale : p.scale;
  return S.softcap ? scale / p.softcap : scale;
}

}  // namespace dlblas::attention
