// Attention's gradient by mma.sync, for every GPU from sm_80 on: f16 and bf16, heads up to 256.
// Each warp of a block holds 16 rows of dq, or of dk and dv (its "own" rows); the block iterates
// over blocks of keys, or of queries (the rows it "meets"). Both passes recompute S = own·metᵀ and
// dP = own'·met'ᵀ, so nothing is added across blocks: dq takes a pass of its own, and the bits are
// always the same. Two warps may each take half of the columns of the sums; both then compute the
// scores. In: AttentionGradientParams. Out: dq; or dk and dv. Numerics: f32; P and dS rounded to
// the type for the last products. Flow: call > validate > select > compile > [launch].  Read next:
// attention_gradient.cuh, attention_mma.cuh.
#pragma once

#include "ops/attention/cuda/attention_load.cuh"
#include "ops/attention/gradient/attention_gradient.cuh"

namespace dlblas::attention {

namespace gradient_detail {

/// sums[own, met] = rows·metᵀ for this warp's 16 rows.
template <bool kBf16, int kWidth, int kTiles>
__device__ __forceinline__ void multiply(float (&sums)[kTiles][4], uint32_t own, uint32_t met) {
  constexpr int kPitch = mma_pitch(kWidth);
#pragma unroll
  for (int i = 0; i < kTiles; ++i) sums[i][0] = sums[i][1] = sums[i][2] = sums[i][3] = 0;
#pragma unroll
  for (int c = 0; c < kWidth / 16; ++c) {
    uint32_t a[4];
    load_tiles<false>(a, own + c * 32);
#pragma unroll
    for (int i = 0; i < kTiles / 2; ++i) {
      uint32_t b[4];
      load_tiles<false>(b, met + i * 16 * kPitch + c * 32);
      mma_16x8x16<kBf16>(sums[2 * i], a, b[0], b[1]);
      mma_16x8x16<kBf16>(sums[2 * i + 1], a, b[2], b[3]);
    }
  }
}

/// Loads `left` rows of a head from row `from` on, and zeros after them.
template <AttentionTraits S, int kWidth, int kCount, int kThreads>
__device__ __forceinline__ void load_rows(unsigned char* to, const void* base, const int64_t* at,
                                          int32_t real, int32_t batch, int64_t from, int32_t head,
                                          int32_t left) {
  load_tile<S.type, S.in, kWidth, kCount, kThreads>(
      to, base, at[3], real, [&](int row, int64_t& offset) {
        offset = batch * at[0] + (from + row) * at[1] + head * at[2];
        return row < left;
      });
}

/// sums += factors·met, for kColumns / 8 tiles of columns.
template <DType T, int kWidth, int kTiles, int kColumns>
__device__ __forceinline__ void accumulate(float (&sums)[kColumns / 8][4],
                                           const float (&factors)[kTiles][4], uint32_t met) {
#pragma unroll
  for (int k = 0; k < kTiles / 2; ++k) {
    uint32_t a[4];
    pack_numerators<T>(a, factors, k);
#pragma unroll
    for (int i = 0; i < kColumns / 16; ++i) {
      uint32_t b[4];
      load_tiles<true>(b, met + k * 16 * mma_pitch(kWidth) + i * 32);
      mma_16x8x16<T == DType::kBF16>(sums[2 * i], a, b[0], b[1]);
      mma_16x8x16<T == DType::kBF16>(sums[2 * i + 1], a, b[2], b[3]);
    }
  }
}

/// Stores this thread's row `r` (g or g + 8) of the sums, from column `begin` on.
template <DType T, Reach kReach, int kColumns>
__device__ __forceinline__ void store_row(void* to, int64_t offset, int64_t step, int32_t begin,
                                          int32_t width, const float (&sums)[kColumns / 8][4],
                                          int r, float factor, bool inside) {
  const int lane = static_cast<int>(threadIdx.x) % 4;
  if constexpr (kReach == Reach::kWide) {
#pragma unroll
    for (int i = 0; i < kColumns / 8; i += 4) {
      uint32_t words[4];
#pragma unroll
      for (int j = 0; j < 4; ++j)
        words[j] = pack_pair<T>(sums[i + j][2 * r] * factor, sums[i + j][2 * r + 1] * factor);
      gather_quad(words);
      const int column = begin + i * 8 + lane * 8;
      if (inside && column < width)
        *reinterpret_cast<uint4*>(static_cast<uint16_t*>(to) + offset + column) = {
            words[0], words[1], words[2], words[3]};
    }
  } else {
#pragma unroll
    for (int i = 0; i < kColumns / 8; ++i)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int column = begin + i * 8 + lane * 2 + j;
        if (inside && column < width)
          store_one<T, kReach>(to, offset + column * step, sums[i][2 * r + j] * factor);
      }
  }
}

}  // namespace gradient_detail

template <AttentionTraits S, AttentionGradientMmaConfig C, bool kKeys>
__global__ void __launch_bounds__(C.warps* C.halves * 32, 1)
    attention_gradient_mma(const __grid_constant__ AttentionGradientParams g) {
  using namespace gradient_detail;
  constexpr bool kBf16 = S.type == DType::kBF16;
  constexpr int kThreads = C.warps * C.halves * 32, kRows = C.warps * 16, kMet = C.others;
  constexpr int kD = S.d, kDv = S.dv, kTiles = kMet / 8;
  constexpr int kInner = kD / C.halves, kOuter = kDv / C.halves;  // columns of a warp's sums
  extern __shared__ __align__(16) unsigned char shared[];
  unsigned char* const own_inner = shared;
  unsigned char* const own_outer = own_inner + kRows * mma_pitch(kD);
  unsigned char* const met_inner = own_outer + kRows * mma_pitch(kDv);
  unsigned char* const met_outer = met_inner + kMet * mma_pitch(kD);
  struct Met {
    QueryFacts facts;
    KeyRange seen;
  };
  Met* const met = reinterpret_cast<Met*>(met_outer + kMet * mma_pitch(kDv));  // of queries
  const AttentionParams& p = g.p;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  const int warp = thread / 32 % C.warps, half = thread / 32 / C.warps;

  const Tile t = tile_at<S.packed_sequences, kRows, kKeys>(p, blockIdx.x);
  if (kKeys ? t.empty_of_keys() : t.empty(p)) return;
  const int32_t rows = min(kRows, (kKeys ? t.k_rows : t.q_rows) - t.first);
  const int32_t batch = S.packed_sequences ? 0 : t.batch;
  const auto sees = [&](int32_t row) {
    return kKeys ? seeing(p, t, t.first + row) : visible(p, t, t.first + row);
  };
  const KeyRange lowest = sees(0), highest = sees(rows - 1);
  const int32_t begin = lowest.first / kMet, end = (highest.end + kMet - 1) / kMet;
  const int64_t own_from = (kKeys ? t.k_from : t.q_from) + static_cast<int64_t>(t.first);
  load_rows<S, kD, kRows, kThreads>(own_inner, kKeys ? p.k : p.q, kKeys ? p.k_at : p.q_at, p.d,
                                    batch, own_from, t.head, rows);
  load_rows<S, kDv, kRows, kThreads>(own_outer, kKeys ? p.v : g.dout, kKeys ? p.v_at : g.dout_at,
                                     p.dv, batch, own_from, t.head, rows);

  // This thread's two rows.
  KeyRange seen[2];
  QueryFacts facts[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int32_t row = min(warp * 16 + lane / 4 + 8 * r, rows - 1);
    seen[r] = sees(row);
    if constexpr (!kKeys) facts[r] = query_facts<S>(g, t, t.head, t.first + row);
  }
  const float factor = factor_of<S>(p);
  float inner[kInner / 8][4], outer[kKeys ? kOuter / 8 : 1][4];
#pragma unroll
  for (int i = 0; i < kInner / 8; ++i) inner[i][0] = inner[i][1] = inner[i][2] = inner[i][3] = 0;
  if constexpr (kKeys) {
#pragma unroll
    for (int i = 0; i < kOuter / 8; ++i) outer[i][0] = outer[i][1] = outer[i][2] = outer[i][3] = 0;
  }

  // Lane addresses of ldmatrix: see device/mma.cuh.
  const int in_tile = lane & 7, bit3 = lane >> 3 & 1, bit4 = lane >> 4;
  const int own_row = warp * 16 + bit3 * 8 + in_tile, met_row = bit4 * 8 + in_tile;
  const uint32_t own_inner_at = shared_address(own_inner) + own_row * mma_pitch(kD) + bit4 * 16;
  const uint32_t own_outer_at = shared_address(own_outer) + own_row * mma_pitch(kDv) + bit4 * 16;
  const uint32_t met_inner_at = shared_address(met_inner) + met_row * mma_pitch(kD) + bit3 * 16;
  const uint32_t met_outer_at = shared_address(met_outer) + met_row * mma_pitch(kDv) + bit3 * 16;
  const int turned_row = bit3 * 8 + in_tile;
  const uint32_t inner_at =
      shared_address(met_inner) + turned_row * mma_pitch(kD) + bit4 * 16 + half * kInner * 2;
  const uint32_t outer_at =
      shared_address(met_outer) + turned_row * mma_pitch(kDv) + bit4 * 16 + half * kOuter * 2;

#pragma unroll 1
  for (int32_t h = 0; h < (kKeys ? p.group : 1); ++h) {
    const int32_t head = kKeys ? t.head * p.group + h : t.head / p.group;
#pragma unroll 1
    for (int32_t n = begin; n < end; ++n) {
      const int32_t first = n * kMet, left = (kKeys ? t.q_rows : t.k_rows) - first;
      const int64_t from = (kKeys ? t.q_from : t.k_from) + static_cast<int64_t>(first);
      __syncthreads();  // what was met before has been read
      load_rows<S, kD, kMet, kThreads>(met_inner, kKeys ? p.q : p.k, kKeys ? p.q_at : p.k_at, p.d,
                                       batch, from, head, left);
      load_rows<S, kDv, kMet, kThreads>(met_outer, kKeys ? g.dout : p.v, kKeys ? g.dout_at : p.v_at,
                                        p.dv, batch, from, head, left);
      cp_async_commit();
      if constexpr (kKeys)
        for (int i = thread; i < kMet; i += kThreads) {
          const int32_t position = first + min(i, left - 1);
          met[i].facts = query_facts<S>(g, t, head, position);
          met[i].seen = i < left ? visible(p, t, position) : KeyRange{0, 0};
        }
      cp_async_wait<0>();
      __syncthreads();
      float s[kTiles][4], dp[kTiles][4];
      multiply<kBf16, kD>(s, own_inner_at, met_inner_at);
      multiply<kBf16, kDv>(dp, own_outer_at, met_outer_at);
#pragma unroll
      for (int i = 0; i < kTiles; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int column = i * 8 + lane % 4 * 2 + j;
          Met of{};
          if constexpr (kKeys) of = met[column];
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            const int32_t own = t.first + warp * 16 + lane / 4 + 8 * r;
            const int32_t key = kKeys ? own : first + column;
            const KeyRange range = kKeys ? of.seen : seen[r];
            pair_gradient<S>(p, factor, kKeys ? of.facts : facts[r], key,
                             key >= range.first && key < range.end, s[i][2 * r + j],
                             dp[i][2 * r + j]);
          }
        }
      accumulate<S.type, kD, kTiles, kInner>(inner, dp, inner_at);
      if constexpr (kKeys) accumulate<S.type, kDv, kTiles, kOuter>(outer, s, outer_at);
    }
  }

#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = warp * 16 + lane / 4 + 8 * r;
    const int64_t* const at = kKeys ? g.dk_at : g.dq_at;
    store_row<S.type, S.out, kInner>(kKeys ? g.dk : g.dq,
                                     batch * at[0] + (own_from + row) * at[1] + t.head * at[2],
                                     at[3], half * kInner, p.d, inner, r, p.scale, row < rows);
    if constexpr (kKeys)
      store_row<S.type, S.out, kOuter>(
          g.dv, batch * g.dv_at[0] + (own_from + row) * g.dv_at[1] + t.head * g.dv_at[2],
          g.dv_at[3], half * kOuter, p.dv, outer, r, 1.0f, row < rows);
  }
}

}  // namespace dlblas::attention
