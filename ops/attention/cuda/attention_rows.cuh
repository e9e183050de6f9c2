// Attention without tensor cores: the form for f32 and for any head dimension, strides and
// alignment. A warp holds kRowsOfWarp rows of a tile and processes 32 keys at a time: each lane
// computes the scores of one key, then accumulates some columns of v. Columns beyond 256 take
// further passes.
// In: AttentionParams. Out: o and lse. Numerics: f32 throughout. Deterministic.
// Flow: call > validate > select > compile > [launch].  Read next: attention_tile.cuh.
#pragma once

#include "device/reduce.cuh"
#include "ops/attention/cuda/attention_tile.cuh"

namespace dlblas::attention {

template <AttentionTraits S, AttentionRowsConfig C>
__global__ void __launch_bounds__(C.warps * 32)
    attention_rows(const __grid_constant__ AttentionParams p) {
  constexpr int kHeld = kRowsOfWarp, kColumns = 8, kPass = kColumns * 32;
  constexpr int kRows = C.warps * kHeld;
  extern __shared__ __align__(16) float queries[];  // [rows, d]
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const Tile t = tile_at<S.packed_sequences, kRows>(p, blockIdx.x);
  const int32_t own = warp * kHeld, left = t.q_rows * p.pack - t.first - own;
  if (left <= 0) return;  // no barrier follows: a warp reads its own queries alone
  const int32_t rows = min(left, kHeld);
  const int32_t batch = S.packed_sequences ? 0 : t.batch, kv_head = t.head / p.group;
  float* const q = queries + own * p.d;
  KeyRange seen[kHeld], all{t.k_rows, 0};
  int64_t bias[kHeld];
#pragma unroll
  for (int r = 0; r < kHeld; ++r) {
    const int row = own + min(r, rows - 1);
    const int32_t position = t.position(p, row), head = t.head_of(p, row);
    seen[r] = visible(p, t, position);
    if (seen[r].first < seen[r].end)
      all = {min(all.first, seen[r].first), max(all.end, seen[r].end)};
    bias[r] = t.batch * p.bias_at[0] + head * p.bias_at[1] + position * p.bias_at[2];
    const int64_t from = batch * p.q_at[0] + (t.q_from + position) * p.q_at[1] + head * p.q_at[2];
    for (int c = lane; c < p.d; c += 32)
      q[r * p.d + c] = load_one<S.from, S.in>(p.q, from + c * p.q_at[3]);
  }
  __syncwarp();
  const int64_t k0 = batch * p.k_at[0] + kv_head * p.k_at[2];
  const int64_t v0 = batch * p.v_at[0] + kv_head * p.v_at[2];
  const bool sees = all.first < all.end;
  const float scale = sees ? scale_of<S>(p, t, kv_head) : p.scale;
  const float factor = factor_of<S>(scale);
  const float of_values = is_f8(S.from) && sees ? descale_of(p, 2, t, kv_head) : 1;

#pragma unroll 1
  for (int32_t pass = 0; pass == 0 || pass < p.dv; pass += kPass) {
    float most[kHeld], sum[kHeld], o[kHeld][kColumns];
#pragma unroll
    for (int r = 0; r < kHeld; ++r) {
      most[r] = minus_infinity(), sum[r] = 0;
#pragma unroll
      for (int c = 0; c < kColumns; ++c) o[r][c] = 0;
    }
#pragma unroll 1
    for (int32_t first = all.first / 32 * 32; first < all.end; first += 32) {
      const int32_t key = first + lane;
      float s[kHeld];
      {
        float even[kHeld], odd[kHeld];
#pragma unroll
        for (int r = 0; r < kHeld; ++r) even[r] = odd[r] = 0;
        if (key < t.k_rows) {
          const int64_t from = k0 + (t.k_from + static_cast<int64_t>(key)) * p.k_at[1];
          int32_t c = 0;
          for (; c + 2 <= p.d; c += 2) {
            const float x = load_one<S.from, S.in>(p.k, from + c * p.k_at[3]);
            const float y = load_one<S.from, S.in>(p.k, from + (c + 1) * p.k_at[3]);
#pragma unroll
            for (int r = 0; r < kHeld; ++r) {
              even[r] = fmaf(x, q[r * p.d + c], even[r]);
              odd[r] = fmaf(y, q[r * p.d + c + 1], odd[r]);
            }
          }
          if (c < p.d) {
            const float x = load_one<S.from, S.in>(p.k, from + c * p.k_at[3]);
#pragma unroll
            for (int r = 0; r < kHeld; ++r) even[r] = fmaf(x, q[r * p.d + c], even[r]);
          }
        }
#pragma unroll
        for (int r = 0; r < kHeld; ++r) {
          const bool there = key >= seen[r].first && key < seen[r].end;
          s[r] =
              there ? scaled_score<S>(p, scale, even[r] + odd[r], bias[r], key) : minus_infinity();
        }
      }
#pragma unroll
      for (int r = 0; r < kHeld; ++r) {
        float peak = s[r];
#pragma unroll
        for (int i = 16; i > 0; i /= 2) peak = fmaxf(peak, __shfl_xor_sync(0xffffffffu, peak, i));
        peak = fmaxf(peak, most[r]);
        const ExponentBase by = exponent_base(peak, factor);
        const float rescale = DeviceMath::exp2(rescale_exponent(by, most[r], peak, factor));
        most[r] = peak;
        s[r] = DeviceMath::exp2(exponent_of(by, s[r], peak, factor));
        sum[r] = fmaf(sum[r], rescale, s[r]);  // this lane's keys
#pragma unroll
        for (int c = 0; c < kColumns; ++c) o[r][c] *= rescale;
      }
      const int32_t count = min(32, all.end - first);
#pragma unroll 1
      for (int j = 0; j < count; ++j) {
        const int64_t from = v0 + (t.k_from + static_cast<int64_t>(first + j)) * p.v_at[1];
        float v[kColumns];
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          const int32_t column = pass + c * 32 + lane;
          v[c] = column < p.dv ? load_one<S.from, S.in>(p.v, from + column * p.v_at[3]) : 0.0f;
        }
#pragma unroll
        for (int r = 0; r < kHeld; ++r) {
          const float weight = __shfl_sync(0xffffffffu, s[r], j);
          if (first + j < seen[r].first || first + j >= seen[r].end) continue;
#pragma unroll
          for (int c = 0; c < kColumns; ++c) o[r][c] = fmaf(weight, v[c], o[r][c]);
        }
      }
    }
#pragma unroll
    for (int r = 0; r < kHeld; ++r) {
      float total = sum[r];
#pragma unroll
      for (int i = 16; i > 0; i /= 2) total += __shfl_xor_sync(0xffffffffu, total, i);
      if (r >= rows) continue;
      const int64_t at = t.q_from + t.position(p, own + r);
      const int32_t head = t.head_of(p, own + r);
      const int64_t to = batch * p.o_at[0] + at * p.o_at[1] + head * p.o_at[2];
      float inverse = total == 0 ? 0.0f : 1 / total;
      if constexpr (is_f8(S.from)) inverse *= of_values;
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const int32_t column = pass + c * 32 + lane;
        if (column < p.dv) store_one<S.to, S.out>(p.o, to + column * p.o_at[3], o[r][c] * inverse);
      }
      if (pass == 0 && lane == 0)
        store_lse(p, t, head, at,
                  total == 0 ? minus_infinity()
                             : log2_of_sum(most[r], factor, log2f(total)) * 0.693147181f);
    }
  }
}

}  // namespace dlblas::attention
