// Latent attention over a paged cache on tensor cores (sm_80 and later): a block takes some heads
// of a token and a part of its keys, which shared memory holds once, as keys and as values. Its
// eight warps compute scores in tiles of 8 keys, then each the powers of some rows, and last each
// an eighth of the latents. Keys of f8 are widened, exactly, where a warp loads them to multiply.
// mla_join joins the parts of a sequence. In: MlaParams. Out: o and lse. Numerics: f32; a power is
// split into two 16-bit numbers (which loses 2^-16 of it), or for keys of f8 rounded to one; the
// order of sums depends on the number of parts alone.
// Flow: call > validate > select > compile > [launch].
// Read next: device/mma.cuh, ops/attention/paged_attention_lse/paged_decode.cuh.
#pragma once

#include "device/attention/exponent.cuh"
#include "device/cp_async.cuh"
#include "device/mma.cuh"
#include "device/pdl.cuh"
#include "device/reduce.cuh"
#include "device/row/values.cuh"
#include "device/shared.cuh"
#include "ops/attention/cuda/f8_pair.cuh"
#include "ops/attention/cuda/join_parts.cuh"
#include "ops/attention/mla_decode_lse/mla_config.hpp"

namespace dlblas::attention {

inline constexpr int kMlaWarps = 8;

/// Bytes from one row in shared memory to the next: an odd multiple of 16, so that eight rows hit
/// all banks.
constexpr int mla_pitch(int columns) { return (columns / 8 | 1) * 16; }
constexpr int mla_query_pitch(const MlaTraits& s) { return mla_pitch(s.latent + s.rotary); }
constexpr int mla_key_pitch(const MlaTraits& s) {
  return mla_pitch((s.latent + s.rotary) / (is_f8(s.cache) ? 2 : 1));
}
constexpr int mla_score_pitch(const MlaDecodeConfig& c) { return c.keys + 4; }  // in floats
constexpr int mla_shared_bytes(const MlaTraits& s, const MlaDecodeConfig& c) {
  return c.rows * mla_query_pitch(s) + c.stages * c.keys * mla_key_pitch(s) +
         c.rows * mla_score_pitch(c) * 4 + (is_f8(s.cache) ? 1 : 2) * c.rows * mla_pitch(c.keys);
}
inline __device__ float mla_scale_of(const float* scale) { return scale ? *scale : 1.0f; }

template <MlaTraits S, MlaDecodeConfig C>
__global__ void __launch_bounds__(kMlaWarps* kWarp, C.blocks)
    mla_decode(const __grid_constant__ MlaParams p) {
  constexpr bool kBf16 = S.type == DType::kBF16, kNarrow = is_f8(S.cache);
  constexpr int kDepth = S.latent + S.rotary, kSteps = kDepth / 16, kPitch = mla_key_pitch(S);
  constexpr int kQueryPitch = mla_query_pitch(S), kStep = kNarrow ? 16 : 32;  // bytes of a step
  constexpr int kTile = C.keys * kPitch, kScorePitch = mla_score_pitch(C);
  constexpr int kPowerPitch = mla_pitch(C.keys), kBands = C.rows / 16;
  constexpr int kColumns = S.latent / kMlaWarps;            // of a warp
  constexpr int kEach = kBands * (C.keys / 8) / kMlaWarps;  // tiles of 8 keys of a warp
  constexpr int kCopies = C.keys / kMlaWarps;               // rows of a tile that a warp copies
  constexpr float kRaise = kBf16 ? 0.0f : 10.0f;            // f16 holds little below 2^-14
  static_assert(kEach > 0 && C.keys / 8 % kEach == 0 && kSteps % 2 == 0 && kColumns % 16 == 0);
  extern __shared__ __align__(16) unsigned char mla_memory[];
  __shared__ float maxima[C.rows], sums[C.rows], scales[C.rows];

  launch_dependents();
  wait_for_dependencies();
  const float nothing = -DeviceMath::infinity();
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp, lane = thread % kWarp;
  const int g = lane / 4, q = lane % 4;
  const uint32_t unit = blockIdx.x / static_cast<uint32_t>(p.parts);
  const int part = static_cast<int>(blockIdx.x - unit * p.parts);
  const int64_t t = unit / static_cast<uint32_t>(p.blocks);
  const int head = static_cast<int>(unit - t * p.blocks) * C.rows;
  const int count = min(C.rows, p.heads - head);
  const int32_t* const table = p.table + t * p.table_at[0];
  const auto length =
      static_cast<int32_t>(min(min(int64_t{p.entries} * S.page, int64_t{0x7fffffff}),
                               max(int64_t{0}, int64_t{p.lengths[t * p.lengths_at]})));
  const int32_t tiles = (length + C.keys - 1) / C.keys, share = (tiles + p.parts - 1) / p.parts;
  const auto begin = static_cast<int32_t>(min(int64_t{length}, int64_t{share} * part * C.keys));
  const auto end = static_cast<int32_t>(min(int64_t{length}, begin + int64_t{share} * C.keys));

  const uint32_t queries = shared_address(mla_memory), ring = queries + C.rows * kQueryPitch;
  auto* const scores =
      reinterpret_cast<float*>(mla_memory + C.rows * kQueryPitch + C.stages * kTile);
  const uint32_t powers = shared_address(scores + C.rows * kScorePitch);
  constexpr uint32_t kLow = C.rows * kPowerPitch;  // from a power's first number to its second

  // Copies a row of keys or queries of kBytes per element: the chunks of its two parts.
  const auto copy_row = [&]<int kBytes>(uint32_t to, const void* first, int64_t first_at,
                                        const void* second, int64_t second_at, bool valid) {
    constexpr int kChunks = kDepth * kBytes / 16, kFirst = S.latent * kBytes / 16;
#pragma unroll
    for (int i = 0; i < (kChunks + kWarp - 1) / kWarp; ++i) {
      const int chunk = i * kWarp + lane;
      if (chunk >= kChunks) continue;
      const char* const from =
          chunk < kFirst
              ? static_cast<const char*>(first) + first_at * kBytes + chunk * 16
              : static_cast<const char*>(second) + second_at * kBytes + (chunk - kFirst) * 16;
      cp_async(to + chunk * 16, valid ? from : static_cast<const char*>(first), valid ? 16 : 0);
    }
  };
  int32_t next_page = 0;
  const auto find_page = [&](int32_t first) {
    const int32_t n = first + warp + lane % kCopies * kMlaWarps;
    if (n < end) next_page = table[n / S.page * p.table_at[1]];
  };
  const auto fetch = [&](int32_t first, int slot) {
    if (first < end) {
      const int32_t pages = next_page;
      find_page(first + C.keys);
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
        const int row = warp + i * kMlaWarps;
        const int64_t page = __shfl_sync(0xffffffffu, pages, i);
        const int32_t n = first + row;
        copy_row.template operator()<size_of(S.cache)>(
            ring + slot * kTile + row * kPitch, p.ckv,
            page * p.ckv_at[0] + n % S.page * p.ckv_at[1], p.kpe,
            page * p.kpe_at[0] + n % S.page * p.kpe_at[1], n < end);
      }
    }
    cp_async_commit();
  };

  if constexpr (!kNarrow) {
    for (int r = warp; r < C.rows; r += kMlaWarps)
      copy_row.template operator()<2>(queries + r * kQueryPitch, p.q_nope,
                                      t * p.q_nope_at[0] + (head + r) * p.q_nope_at[1], p.q_pe,
                                      t * p.q_pe_at[0] + (head + r) * p.q_pe_at[1], r < count);
  }
  for (int r = thread; r < C.rows; r += kMlaWarps * kWarp) maxima[r] = nothing, sums[r] = 0;
  find_page(begin);
#pragma unroll
  for (int i = 0; i < C.stages - 1; ++i) fetch(begin + i * C.keys, i);
  if constexpr (kNarrow) {
    // A thread's word of codes has columns 4q … 4q + 3 of a step. So pairs of columns of queries
    // lie in the order 0, 2, 4, 6, 1, 3, 5, 7.
    constexpr int kPieces = kDepth / 16, kFirst = S.latent / 16;
    for (int i = thread; i < C.rows * kPieces; i += kMlaWarps * kWarp) {
      const int r = i / kPieces, piece = i % kPieces;
      uint4 low = {0, 0, 0, 0}, high = low;
      if (r < count) {
        const auto* const from = reinterpret_cast<const uint4*>(
            piece < kFirst
                ? static_cast<const char*>(p.q_nope) +
                      2 * (t * p.q_nope_at[0] + (head + r) * p.q_nope_at[1] + piece * 16)
                : static_cast<const char*>(p.q_pe) +
                      2 * (t * p.q_pe_at[0] + (head + r) * p.q_pe_at[1] + (piece - kFirst) * 16));
        low = from[0], high = from[1];
      }
      const uint32_t to = queries + r * kQueryPitch + piece * 32;
      store_shared(to, {low.x, low.z, high.x, high.z});
      store_shared(to + 16, {low.y, low.w, high.y, high.w});
    }
  }
  const float ckv_scale = S.scaled ? mla_scale_of(p.ckv_scale) : 1;
  const float factor_of_latents = p.scale * ckv_scale;
  const float factor_of_rotary = S.scaled ? p.scale * mla_scale_of(p.kpe_scale) : 0;

  float acc[kBands][kColumns / 8][4] = {};
  int slot = 0, next = C.stages - 1;
#pragma unroll 1
  for (int32_t first = begin; first < end; first += C.keys) {
    cp_async_wait<C.stages - 2>();
    __syncthreads();
    fetch(first + (C.stages - 1) * C.keys, next);
    const uint32_t keys = ring + slot * kTile;

    {  // Scores of 16 heads and some eights of keys.
      const int tile = warp * kEach, band = tile / (C.keys / 8), eight = tile % (C.keys / 8);
      const uint32_t a_at = queries + (band * 16 + lane % 16) * kQueryPitch + lane / 16 * 16;
      const uint32_t b_at =
          keys + (eight * 8 + lane % 8) * kPitch + lane / 8 % (kNarrow ? 2 : 4) * 16;
      float s[kEach][2][4] = {}, of_latents[kEach][4];
      const auto products = [&](int k) {
        uint32_t a0[4], a1[4];
        load_tiles<false>(a0, a_at + k * 32);
        load_tiles<false>(a1, a_at + k * 32 + 32);
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          uint32_t b[4];
          if constexpr (kNarrow) {
            uint32_t codes[2];
            load_two_tiles<false>(codes[0], codes[1], b_at + i * 8 * kPitch + k * kStep);
#pragma unroll
            for (int j = 0; j < 4; ++j)
              b[j] = widen_pair<S.cache, S.type>(codes[j / 2] >> j % 2 * 16);
          } else {
            load_tiles<false>(b, b_at + i * 8 * kPitch + k * kStep);
          }
          mma_16x8x16<kBf16>(s[i][0], a0, b[0], b[1]);
          mma_16x8x16<kBf16>(s[i][1], a1, b[2], b[3]);
        }
      };
      if constexpr (S.scaled) {
#pragma unroll 4
        for (int k = 0; k < S.latent / 16; k += 2) products(k);
#pragma unroll
        for (int i = 0; i < kEach; ++i)
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            of_latents[i][j] = (s[i][0][j] + s[i][1][j]) * factor_of_latents;
            s[i][0][j] = s[i][1][j] = 0;
          }
#pragma unroll
        for (int k = S.latent / 16; k < kSteps; k += 2) products(k);
      } else {
#pragma unroll 6
        for (int k = 0; k < kSteps; k += 2) products(k);
      }
#pragma unroll
      for (int i = 0; i < kEach; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int row = band * 16 + g + j / 2 * 8, key = (eight + i) * 8 + q * 2 + j % 2;
          const float sum = s[i][0][j] + s[i][1][j];
          scores[row * kScorePitch + key] =
              S.scaled ? fmaf(sum, factor_of_rotary, of_latents[i][j]) : sum * p.scale;
        }
    }
    __syncthreads();

#pragma unroll
    for (int i = 0; i < C.rows / kMlaWarps; ++i) {  // A warp's rows.
      constexpr int kOf = C.keys / kWarp;           // keys of a lane
      const int row = warp * (C.rows / kMlaWarps) + i;
      const float before = maxima[row];
      float s[kOf], largest = before, total = 0;
#pragma unroll
      for (int j = 0; j < kOf; ++j) {
        s[j] = first + lane * kOf + j < end ? scores[row * kScorePitch + lane * kOf + j] : nothing;
        largest = fmaxf(largest, s[j]);
      }
#pragma unroll
      for (int d = kWarp / 2; d > 0; d /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, d));
      const float base = largest == nothing ? 0 : largest, high_base = raised_base(base, kRaise);
      const float scale = DeviceMath::exp2(before - base);
#pragma unroll
      for (int j = 0; j < kOf; ++j) {
        s[j] = DeviceMath::exp2(s[j] - high_base);
        total += s[j];
        const uint32_t high = pack_pair<S.type>(s[j], 0);
        const uint32_t to = powers + row * kPowerPitch + (lane * kOf + j) * 2;
        asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"(static_cast<uint16_t>(high))
                     : "memory");
        if constexpr (!kNarrow) {
          const uint32_t low = pack_pair<S.type>(s[j] - unpack_pair<S.type>(high).low, 0);
          asm volatile("st.shared.u16 [%0], %1;" ::"r"(to + kLow), "h"(static_cast<uint16_t>(low))
                       : "memory");
        }
      }
      total = warp_sum<kWarp>(total);
      __syncwarp();  // all lanes have read the row's maximum
      if (lane == 0) {
        scales[row] = largest == before ? 1 : scale;
        sums[row] = fmaf(sums[row], scale, total);
        maxima[row] = largest;
      }
    }
    __syncthreads();

#pragma unroll
    for (int b = 0; b < kBands; ++b) {
      const float scale[2] = {scales[b * 16 + g], scales[b * 16 + g + 8]};
      if (!__any_sync(0xffffffffu, scale[0] != 1 || scale[1] != 1)) continue;
#pragma unroll
      for (auto& column : acc[b])
#pragma unroll
        for (int j = 0; j < 4; ++j) column[j] *= scale[j / 2];
    }
    const uint32_t a_at = powers + lane % 16 * kPowerPitch + lane / 16 * 16;
    const uint32_t b_at = keys + lane % 16 * kPitch +
                          (kNarrow ? warp * kColumns : (warp * kColumns + lane / 16 * 8) * 2);
#pragma unroll
    for (int k = 0; k < C.keys / 16; ++k) {
      uint32_t high[kBands][4], low[kBands][4];
#pragma unroll
      for (int b = 0; b < kBands; ++b) {
        load_tiles<false>(high[b], a_at + b * 16 * kPowerPitch + k * 32);
        if constexpr (!kNarrow)
          load_tiles<false>(low[b], a_at + kLow + b * 16 * kPowerPitch + k * 32);
      }
#pragma unroll
      for (int c = 0; c < kColumns / 8; c += 2) {
        uint32_t v[4];
        if constexpr (kNarrow) {
          // A word has columns 2g and 2g + 1 of two keys: the even ones are tile c, the odd ones
          // tile c + 1.
          uint32_t codes[2];
          load_two_tiles<true>(codes[0], codes[1], b_at + k * 16 * kPitch + c * 8);
#pragma unroll
          for (int j = 0; j < 4; ++j)
            v[j] = widen_pair<S.cache, S.type>(
                __byte_perm(codes[j % 2], 0, j / 2 == 0 ? 0x4420 : 0x4431));
        } else {
          load_tiles<true>(v, b_at + k * 16 * kPitch + c * 16);
        }
#pragma unroll
        for (int b = 0; b < kBands; ++b)
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            mma_16x8x16<kBf16>(acc[b][c + j], high[b], v[2 * j], v[2 * j + 1]);
            if constexpr (!kNarrow)
              mma_16x8x16<kBf16>(acc[b][c + j], low[b], v[2 * j], v[2 * j + 1]);
          }
      }
    }
    slot = slot + 1 == C.stages ? 0 : slot + 1;
    next = next + 1 == C.stages ? 0 : next + 1;
  }
  cp_async_wait<0>();
  __syncthreads();

  const float raised = DeviceMath::exp2(-kRaise);
#pragma unroll
  for (int b = 0; b < kBands; ++b)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = b * 16 + half * 8 + g;
      if (row >= count) continue;
      const float sum = sums[row] * raised;
      const float factor = sum == 0 ? 0 : raised * ckv_scale / sum;
      const float lse = sum == 0 ? nothing : maxima[row] + ::log2f(sum);
      const int64_t place = ((t * p.heads + head + row) * p.parts + part);
      if (warp == 0 && q == 0) {
        if (p.parts > 1)
          p.part_lse[place] = lse;
        else
          static_cast<float*>(p.lse)[t * p.lse_at[0] + (head + row) * p.lse_at[1]] =
              lse * 0.69314718f;
      }
      float* const to_part = p.part_o + place * S.latent;
      char* const to = static_cast<char*>(p.o) + 2 * (t * p.o_at[0] + (head + row) * p.o_at[1]);
      if constexpr (kNarrow) {
#pragma unroll
        for (int c = 0; c < kColumns / 8; c += 2) {
          const int column = warp * kColumns + c * 8 + q * 4;
          float o[4];
#pragma unroll
          for (int j = 0; j < 4; ++j) o[j] = acc[b][c + j % 2][half * 2 + j / 2] * factor;
          if (p.parts > 1)
            *reinterpret_cast<float4*>(to_part + column) = {o[0], o[1], o[2], o[3]};
          else
            *reinterpret_cast<uint2*>(to + 2 * column) = {pack_pair<S.type>(o[0], o[1]),
                                                          pack_pair<S.type>(o[2], o[3])};
        }
      } else {
#pragma unroll
        for (int c = 0; c < kColumns / 8; ++c) {
          const int column = warp * kColumns + c * 8 + q * 2;
          const float x = acc[b][c][half * 2] * factor, y = acc[b][c][half * 2 + 1] * factor;
          if (p.parts > 1)
            *reinterpret_cast<float2*>(to_part + column) = {x, y};
          else
            *reinterpret_cast<uint32_t*>(to + 2 * column) = pack_pair<S.type>(x, y);
        }
      }
    }
}

/// Joins the few parts of a row, whose loads are all under way together: a warp per 256 columns.
template <MlaTraits S>
__device__ inline void mla_join_few(const MlaParams& p) {
  constexpr int kWarps = mla_join_warps(S.latent), kQuads = S.latent / 128 / kWarps;  // of a lane
  constexpr int kRows = join_threads(S.latent) / kWarp / kWarps;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = warp % kWarps * kQuads * kWarp + static_cast<int>(threadIdx.x) % kWarp;
  const int64_t row = int64_t{blockIdx.x} * kRows + warp / kWarps;
  const int64_t t = row / p.heads, h = row - t * p.heads, place = row * p.parts;
  if (t >= p.tokens) return;
  const float nothing = -DeviceMath::infinity();
  float lse[kMlaFew], most = nothing, total = 0, o[kQuads][4] = {};
  float4 v[kMlaFew][kQuads];
#pragma unroll
  for (int i = 0; i < kMlaFew; ++i) {
    lse[i] = nothing;
    if (i >= p.parts) continue;
    lse[i] = p.part_lse[place + i];
    const auto* const from =
        reinterpret_cast<const float4*>(p.part_o + (place + i) * S.latent) + lane;
#pragma unroll
    for (int c = 0; c < kQuads; ++c) v[i][c] = from[c * kWarp];
  }
#pragma unroll
  for (const float x : lse) most = fmaxf(most, x);
  const float base = most == nothing ? 0 : most;
#pragma unroll
  for (int i = 0; i < kMlaFew; ++i) {
    if (i >= p.parts) continue;
    const float weight = DeviceMath::exp2(lse[i] - base);
    total += weight;
#pragma unroll
    for (int c = 0; c < kQuads; ++c) {
      o[c][0] = fmaf(weight, v[i][c].x, o[c][0]), o[c][1] = fmaf(weight, v[i][c].y, o[c][1]);
      o[c][2] = fmaf(weight, v[i][c].z, o[c][2]), o[c][3] = fmaf(weight, v[i][c].w, o[c][3]);
    }
  }
  const float inverse = total == 0 ? 0 : 1 / total;
  auto* const to =
      reinterpret_cast<uint2*>(static_cast<char*>(p.o) + 2 * (t * p.o_at[0] + h * p.o_at[1])) +
      lane;
#pragma unroll
  for (int c = 0; c < kQuads; ++c)
    to[c * kWarp] = {pack_pair<S.type>(o[c][0] * inverse, o[c][1] * inverse),
                     pack_pair<S.type>(o[c][2] * inverse, o[c][3] * inverse)};
  if (lane == 0)
    static_cast<float*>(p.lse)[t * p.lse_at[0] + h * p.lse_at[1]] =
        (total == 0 ? nothing : most + ::log2f(total)) * 0.69314718f;
}

/// Joins the parts of a row: one block per head of a token; of few parts, one warp.
template <MlaTraits S>
__global__ void __launch_bounds__(join_threads(S.latent), 2)
    mla_join(const __grid_constant__ MlaParams p) {
  const int64_t t = blockIdx.x / static_cast<uint32_t>(p.heads);
  const int64_t h = blockIdx.x - t * p.heads, place = int64_t{blockIdx.x} * p.parts;
  launch_dependents();
  wait_for_dependencies();
  if (p.parts <= kMlaFew) return mla_join_few<S>(p);
  const JoinedRow row = join_parts<S.latent>(p.part_lse + place, p.part_o + place * S.latent,
                                             p.parts, 1, -DeviceMath::infinity());
  const int d = static_cast<int>(threadIdx.x) * 4;
  if (d >= S.latent) return;
  const float inverse = row.total == 0 ? 0 : 1 / row.total;
  const uint2 words = {pack_pair<S.type>(row.o[0] * inverse, row.o[1] * inverse),
                       pack_pair<S.type>(row.o[2] * inverse, row.o[3] * inverse)};
  *reinterpret_cast<uint2*>(static_cast<char*>(p.o) + 2 * (t * p.o_at[0] + h * p.o_at[1] + d)) =
      words;
  if (d == 0)
    static_cast<float*>(p.lse)[t * p.lse_at[0] + h * p.lse_at[1]] = row.lse() * 0.69314718f;
}

}  // namespace dlblas::attention
