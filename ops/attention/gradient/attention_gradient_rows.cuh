// Attention's gradient without tensor cores: f32, any strides and alignment, any head dimension. A
// warp holds kRowsOfWarp rows of dq (or of dk and dv) and processes 32 keys (queries) at a time:
// each lane computes the scores and dP of one, then accumulates some columns of the sums. Columns
// beyond 256 take further passes. In: AttentionGradientParams. Out: dq; or dk and dv. Numerics: f32
// throughout.
// Deterministic. Flow: call > validate > select > compile > [launch].
// Read next: attention_gradient.cuh.
#pragma once

#include "ops/attention/gradient/attention_gradient.cuh"

namespace dlblas::attention {

template <AttentionTraits S, AttentionGradientRowsConfig C, bool kKeys>
__global__ void __launch_bounds__(C.warps * 32, 1)
    attention_gradient_rows(const __grid_constant__ AttentionGradientParams g) {
  constexpr int kHeld = kRowsOfWarp, kColumns = 8, kPass = kColumns * 32;
  extern __shared__ __align__(16) float shared[];
  const AttentionParams& p = g.p;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const Tile t = tile_at<S.packed_sequences, C.warps * kHeld, kKeys>(p, blockIdx.x);
  if (kKeys ? t.empty_of_keys() : t.empty(p)) return;
  const int32_t first_own = t.first + warp * kHeld;
  const int32_t left = (kKeys ? t.k_rows : t.q_rows) - first_own;
  if (left <= 0) return;  // no barrier follows: a warp reads its own rows alone
  const int32_t rows = min(left, kHeld), batch = S.packed_sequences ? 0 : t.batch;
  const int64_t own_from = (kKeys ? t.k_from : t.q_from) + static_cast<int64_t>(first_own);
  const int64_t other_from = kKeys ? t.q_from : t.k_from;
  const void *const inner = kKeys ? p.k : p.q, *const outer = kKeys ? p.v : g.dout;
  const void *const inner_met = kKeys ? p.q : p.k, *const outer_met = kKeys ? g.dout : p.v;
  const int64_t* const inner_at = kKeys ? p.k_at : p.q_at;
  const int64_t* const outer_at = kKeys ? p.v_at : g.dout_at;
  const int64_t* const inner_met_at = kKeys ? p.q_at : p.k_at;
  const int64_t* const outer_met_at = kKeys ? g.dout_at : p.v_at;
  const float factor = factor_of<S>(p);

  float* const a = shared + warp * kHeld * (p.d + p.dv);  // [rows, d], then [rows, dv]
  float* const b = a + kHeld * p.d;
  KeyRange seen[kHeld], all{0x7fffffff, 0};
  QueryFacts own[kHeld];
#pragma unroll
  for (int r = 0; r < kHeld; ++r) {
    const int32_t row = min(r, rows - 1);
    seen[r] = kKeys ? seeing(p, t, first_own + row) : visible(p, t, first_own + row);
    if (seen[r].first < seen[r].end)
      all = {min(all.first, seen[r].first), max(all.end, seen[r].end)};
    if constexpr (!kKeys) own[r] = query_facts<S>(g, t, t.head, first_own + row);
    const int64_t from =
        batch * inner_at[0] + (own_from + row) * inner_at[1] + t.head * inner_at[2];
    for (int c = lane; c < p.d; c += 32)
      a[r * p.d + c] = load_one<S.type, S.in>(inner, from + c * inner_at[3]);
    const int64_t of = batch * outer_at[0] + (own_from + row) * outer_at[1] + t.head * outer_at[2];
    for (int c = lane; c < p.dv; c += 32)
      b[r * p.dv + c] = load_one<S.type, S.in>(outer, of + c * outer_at[3]);
  }
  __syncwarp();

  const int32_t widest = kKeys ? max(p.d, p.dv) : p.d;
#pragma unroll 1
  for (int32_t pass = 0; pass < widest; pass += kPass) {
    float inner_sum[kHeld][kColumns], outer_sum[kKeys ? kHeld : 1][kColumns];
#pragma unroll
    for (int r = 0; r < kHeld; ++r)
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        inner_sum[r][c] = 0;
        if constexpr (kKeys) outer_sum[r][c] = 0;
      }
#pragma unroll 1
    for (int32_t h = 0; h < (kKeys ? p.group : 1); ++h) {
      const int32_t head = kKeys ? t.head * p.group + h : t.head / p.group;
      const int64_t inner0 = batch * inner_met_at[0] + head * inner_met_at[2];
      const int64_t outer0 = batch * outer_met_at[0] + head * outer_met_at[2];
#pragma unroll 1
      for (int32_t first = all.first; first < all.end; first += 32) {
        const int32_t other = first + lane;
        float s[kHeld], dp[kHeld];
#pragma unroll
        for (int r = 0; r < kHeld; ++r) s[r] = dp[r] = 0;
        if (other < all.end) {
          const int64_t x0 = inner0 + (other_from + other) * inner_met_at[1];
          for (int32_t c = 0; c < p.d; ++c) {
            const float x = load_one<S.type, S.in>(inner_met, x0 + c * inner_met_at[3]);
#pragma unroll
            for (int r = 0; r < kHeld; ++r) s[r] = fmaf(x, a[r * p.d + c], s[r]);
          }
          const int64_t y0 = outer0 + (other_from + other) * outer_met_at[1];
          for (int32_t c = 0; c < p.dv; ++c) {
            const float y = load_one<S.type, S.in>(outer_met, y0 + c * outer_met_at[3]);
#pragma unroll
            for (int r = 0; r < kHeld; ++r) dp[r] = fmaf(y, b[r * p.dv + c], dp[r]);
          }
        }
        QueryFacts met{0, 0, 0};
        if constexpr (kKeys)
          if (other < all.end) met = query_facts<S>(g, t, head, other);
#pragma unroll
        for (int r = 0; r < kHeld; ++r) {
          const bool there = other >= seen[r].first && other < seen[r].end;
          pair_gradient<S>(p, factor, kKeys ? met : own[r], kKeys ? first_own + r : other, there,
                           s[r], dp[r]);
        }
        const int32_t count = min(32, all.end - first);
#pragma unroll 1
        for (int j = 0; j < count; ++j) {
          const int64_t x0 = inner0 + (other_from + first + j) * inner_met_at[1];
          const int64_t y0 = outer0 + (other_from + first + j) * outer_met_at[1];
          float weight[kHeld], ds[kHeld];
#pragma unroll
          for (int r = 0; r < kHeld; ++r) {
            ds[r] = __shfl_sync(0xffffffffu, dp[r], j);
            weight[r] = __shfl_sync(0xffffffffu, s[r], j);
          }
#pragma unroll
          for (int c = 0; c < kColumns; ++c) {
            const int32_t column = pass + c * 32 + lane;
            const float x = column < p.d
                                ? load_one<S.type, S.in>(inner_met, x0 + column * inner_met_at[3])
                                : 0.0f;
#pragma unroll
            for (int r = 0; r < kHeld; ++r) inner_sum[r][c] = fmaf(ds[r], x, inner_sum[r][c]);
            if constexpr (kKeys) {
              const float y = column < p.dv
                                  ? load_one<S.type, S.in>(outer_met, y0 + column * outer_met_at[3])
                                  : 0.0f;
#pragma unroll
              for (int r = 0; r < kHeld; ++r) outer_sum[r][c] = fmaf(weight[r], y, outer_sum[r][c]);
            }
          }
        }
      }
    }
#pragma unroll
    for (int r = 0; r < kHeld; ++r) {
      if (r >= rows) continue;
      const int64_t* const to_at = kKeys ? g.dk_at : g.dq_at;
      const int64_t to = batch * to_at[0] + (own_from + r) * to_at[1] + t.head * to_at[2];
      const int64_t of = batch * g.dv_at[0] + (own_from + r) * g.dv_at[1] + t.head * g.dv_at[2];
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const int32_t column = pass + c * 32 + lane;
        if (column < p.d)
          store_one<S.type, S.out>(kKeys ? g.dk : g.dq, to + column * to_at[3],
                                   inner_sum[r][c] * p.scale);
        if constexpr (kKeys)
          if (column < p.dv)
            store_one<S.type, S.out>(g.dv, of + column * g.dv_at[3], outer_sum[r][c]);
      }
    }
  }
}

}  // namespace dlblas::attention
