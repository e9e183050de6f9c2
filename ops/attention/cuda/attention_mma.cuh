// Attention by mma.sync, for every GPU from sm_80 on: the form for every shape of f16, bf16 and f8
// with heads up to 256. Each warp of a block holds 16 rows. K and V pass through two stages each in
// shared memory, by cp.async where rows are 16-byte aligned, else by plain loads. f8 is converted
// to f16, exactly, on the way. If some row sees only part of a block of keys, the kernel searches
// the block's V for values that are not finite, since 0 · NaN would reach rows that do not see the
// key, and adds those values separately. With rotation tables (S.rotary), q (once) and each block
// of keys are rotated on their way to shared memory: device memory holds nothing rotated. In:
// AttentionParams. Out: o and lse. Numerics: scores and sums in f32, weights rounded to the type
// for the product with V. Deterministic. Flow: call > validate > select > compile > [launch].
// Read next: attention_tile.cuh, attention_rotary.cuh, device/attention/online_softmax.cuh.
#pragma once

#include "ops/attention/cuda/attention_finite.cuh"
#include "ops/attention/cuda/attention_load.cuh"
#include "ops/attention/rotary/attention_rotary.cuh"

namespace dlblas::attention {

/// Blocks per multiprocessor that ptxas plans for; 0: its own choice, which spills f8 before sm_90.
/// Shared memory holds two blocks, which leave each thread 255 registers.
template <AttentionTraits S>
constexpr int attention_mma_blocks() {
#if __CUDA_ARCH__ < 900
  if (S.from != S.type) return 1;
#endif
  return 0;
}

template <AttentionTraits S, AttentionMmaConfig C>
__global__ void __launch_bounds__(C.warps * 32, attention_mma_blocks<S>())
    attention_mma(const __grid_constant__ AttentionParams p) {
  constexpr bool kBf16 = S.type == DType::kBF16;
  constexpr int kThreads = C.warps * 32, kRows = C.warps * 16, kKeys = C.keys;
  constexpr int kD = S.d, kDv = S.dv, kPitch = mma_pitch(kD), kPitchV = mma_pitch(kDv);
  constexpr int kScores = kKeys / 8, kOut = kDv / 8;
  // q's fragments stay in registers unless the addresses of the bias need the room.
  constexpr bool kHold = kD <= 128 && S.bias == DType::kAbsent;
  extern __shared__ __align__(16) unsigned char shared[];
  unsigned char* const q_tile = shared;
  unsigned char* const k_tiles = q_tile + kRows * kPitch;
  unsigned char* const v_tiles = k_tiles + 2 * kKeys * kPitch;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;

  const Tile t = tile_at<S.packed_sequences, kRows>(p, blockIdx.x);
  if (t.empty(p)) return;
  const int32_t rows = min(kRows, t.q_rows * p.pack - t.first);
  const int32_t batch = S.packed_sequences ? 0 : t.batch, kv_head = t.head / p.group;
  const KeyRange lowest = visible(p, t, t.position(p, 0));
  const KeyRange highest = visible(p, t, t.position(p, rows - 1));
  const int32_t begin = lowest.first / kKeys, end = (highest.end + kKeys - 1) / kKeys;
  // Blocks that every row sees in full.
  const int32_t clean_from = (highest.first + kKeys - 1) / kKeys, clean_to = lowest.end / kKeys;

  const int64_t k0 = batch * p.k_at[0] + kv_head * p.k_at[2];
  const int64_t v0 = batch * p.v_at[0] + kv_head * p.v_at[2];
  const auto load_q = [&] {
    const auto row_of = [&](int row, int64_t& offset) {
      offset = batch * p.q_at[0] + (t.q_from + t.position(p, row)) * p.q_at[1] +
               t.head_of(p, row) * p.q_at[2];
      return row < rows;
    };
    if constexpr (S.rotary)
      load_turned<S, kRows, kThreads>(q_tile, p.q, p.q_at[3], p, batch,
                                      [&](int row, int64_t& offset, int64_t& position) {
                                        position = t.position(p, row);
                                        return row_of(row, offset);
                                      });
    else
      load_tile<S.type, S.in, kD, kRows, kThreads, S.from>(q_tile, p.q, p.q_at[3], p.d, row_of);
  };
  const auto load_k = [&](int32_t n) {
    unsigned char* const tile = k_tiles + (n & 1) * kKeys * kPitch;
    const auto row_of = [&](int row, int64_t& offset) {
      const int32_t key = n * kKeys + row;
      offset = k0 + (t.k_from + static_cast<int64_t>(key)) * p.k_at[1];
      return key < t.k_rows;
    };
    if constexpr (S.rotary)
      load_turned<S, kKeys, kThreads>(tile, p.k, p.k_at[3], p, batch,
                                      [&](int row, int64_t& offset, int64_t& position) {
                                        position = n * kKeys + row;
                                        return row_of(row, offset);
                                      });
    else
      load_tile<S.type, S.in, kD, kKeys, kThreads, S.from>(tile, p.k, p.k_at[3], p.d, row_of);
    cp_async_commit();
  };
  const auto load_v = [&](int32_t n) {
    load_tile<S.type, S.in, kDv, kKeys, kThreads, S.from>(
        v_tiles + (n & 1) * kKeys * kPitchV, p.v, p.v_at[3], p.dv, [&](int row, int64_t& offset) {
          const int32_t key = n * kKeys + row;
          offset = v0 + (t.k_from + static_cast<int64_t>(key)) * p.v_at[1];
          return key < t.k_rows;
        });
    cp_async_commit();
  };

  // This thread's two rows.
  const int own = warp * 16 + lane / 4;
  KeyRange seen[2];
  int64_t bias[2] = {0, 0};
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = min(own + 8 * r, rows - 1);
    seen[r] = visible(p, t, t.position(p, row));
    if constexpr (S.bias != DType::kAbsent)
      bias[r] = t.batch * p.bias_at[0] + t.head_of(p, row) * p.bias_at[1] +
                t.position(p, row) * p.bias_at[2];
  }
  OnlineSoftmax softmax;
  float scale = p.scale;
  if (begin < end) scale = scale_of<S>(p, t, kv_head);
  const float factor = factor_of<S>(scale);
  float o[kOut][4];
#pragma unroll
  for (int i = 0; i < kOut; ++i) o[i][0] = o[i][1] = o[i][2] = o[i][3] = 0;

  // Lane addresses of ldmatrix: see device/mma.cuh.
  const int in_tile = lane & 7, bit3 = lane >> 3 & 1, bit4 = lane >> 4;
  const uint32_t q_lane =
      shared_address(q_tile) + (warp * 16 + bit3 * 8 + in_tile) * kPitch + bit4 * 16;
  const uint32_t k_lane = shared_address(k_tiles) + (bit4 * 8 + in_tile) * kPitch + bit3 * 16;
  const uint32_t v_lane = shared_address(v_tiles) + (bit3 * 8 + in_tile) * kPitchV + bit4 * 16;

  uint32_t q_held[kHold ? kD / 16 : 1][4];
  if (begin < end) {
    if constexpr (S.rotary) load_v(begin);  // it arrives while the others are rotated
    load_q();
    load_k(begin);
    if constexpr (!S.rotary) load_v(begin);
  }
#pragma unroll 1
  for (int32_t n = begin; n < end; ++n) {
    cp_async_wait<1>();
    __syncthreads();
    if (n + 1 < end)
      load_k(n + 1);
    else
      cp_async_commit();
    if constexpr (kHold) {
      if (n == begin) {
#pragma unroll
        for (int c = 0; c < kD / 16; ++c) load_tiles<false>(q_held[c], q_lane + c * 32);
      }
    }
    float s[kScores][4];
#pragma unroll
    for (int i = 0; i < kScores; ++i) s[i][0] = s[i][1] = s[i][2] = s[i][3] = 0;
    const uint32_t k_at = k_lane + (n & 1) * kKeys * kPitch;
#pragma unroll
    for (int c = 0; c < kD / 16; ++c) {
      uint32_t q_now[4];
      if constexpr (!kHold) load_tiles<false>(q_now, q_lane + c * 32);
#pragma unroll
      for (int i = 0; i < kScores / 2; ++i) {
        uint32_t b[4];
        load_tiles<false>(b, k_at + i * 16 * kPitch + c * 32);
        if constexpr (kHold) {
          mma_16x8x16<kBf16>(s[2 * i], q_held[c], b[0], b[1]);
          mma_16x8x16<kBf16>(s[2 * i + 1], q_held[c], b[2], b[3]);
        } else {
          mma_16x8x16<kBf16>(s[2 * i], q_now, b[0], b[1]);
          mma_16x8x16<kBf16>(s[2 * i + 1], q_now, b[2], b[3]);
        }
      }
    }
    const int32_t first_key = n * kKeys + lane % 4 * 2;
    const bool clean = n >= clean_from && n < clean_to;
    if (kStaged<S> || scale <= 0) {
#pragma unroll
      for (int i = 0; i < kScores; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          s[i][j] = scaled_score<S>(p, scale, s[i][j], bias[j / 2],
                                    min(first_key + i * 8 + j % 2, t.k_rows - 1));
    }
    if (!clean) {
#pragma unroll
      for (int i = 0; i < kScores; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int32_t key = first_key + i * 8 + j % 2;
          const bool there = key >= seen[j / 2].first && key < seen[j / 2].end;
          s[i][j] = there ? s[i][j] : minus_infinity();
        }
    }
    float rescale[2];
    softmax.meet(s, factor, rescale);
#pragma unroll
    for (int i = 0; i < kOut; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) o[i][j] *= rescale[j / 2];

    cp_async_wait<1>();
    __syncthreads();
    if (n + 1 < end)
      load_v(n + 1);
    else
      cp_async_commit();
    if (!clean) {
      unsigned char* const tile = v_tiles + (n & 1) * kKeys * kPitchV;
      constexpr int kWords = kDv / 2;
      bool found = false;
      for (int i = thread; i < kKeys * kWords; i += kThreads)
        found |= not_finite<S.type>(
            *reinterpret_cast<const uint32_t*>(tile + i / kWords * kPitchV + i % kWords * 4));
      if (__syncthreads_or(found)) {
#pragma unroll 1
        for (int key = 0; key < kKeys; ++key) {
#pragma unroll
          for (int i = 0; i < kOut; ++i) {
            const uint32_t word = *reinterpret_cast<const uint32_t*>(tile + key * kPitchV +
                                                                     (i * 8 + lane % 4 * 2) * 2);
            if (!not_finite<S.type>(word)) continue;
            const FloatPair v = unpack_pair<S.type>(word ^ finite_part<S.type>(word));
#pragma unroll
            for (int r = 0; r < 2; ++r) {
              const int32_t at = n * kKeys + key;
              if (at < seen[r].first || at >= seen[r].end) continue;
              o[i][2 * r] += v.low, o[i][2 * r + 1] += v.high;
            }
          }
        }
        __syncthreads();
        for (int i = thread; i < kKeys * kWords; i += kThreads) {
          auto* word = reinterpret_cast<uint32_t*>(tile + i / kWords * kPitchV + i % kWords * 4);
          *word = finite_part<S.type>(*word);
        }
        __syncthreads();
      }
    }
    const uint32_t v_at = v_lane + (n & 1) * kKeys * kPitchV;
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      uint32_t a[4];
      pack_numerators<S.type>(a, s, k);
#pragma unroll
      for (int i = 0; i < kOut / 2; ++i) {
        uint32_t b[4];
        load_tiles<true>(b, v_at + k * 16 * kPitchV + i * 32);
        mma_16x8x16<kBf16>(o[2 * i], a, b[0], b[1]);
        mma_16x8x16<kBf16>(o[2 * i + 1], a, b[2], b[3]);
      }
    }
  }

  float inverse[2], lse[2];
  softmax.finish(factor, inverse, lse);
  if constexpr (is_f8(S.from)) {
    if (begin < end) {
      const float v_scale = descale_of(p, 2, t, kv_head);
      inverse[0] *= v_scale, inverse[1] *= v_scale;
    }
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = own + 8 * r;
    const bool inside = row < rows;
    const int64_t at = t.q_from + t.position(p, row);
    const int32_t head = t.head_of(p, row);
    const int64_t to = batch * p.o_at[0] + at * p.o_at[1] + head * p.o_at[2];
    if constexpr (S.out == Reach::kWide) {
#pragma unroll
      for (int i = 0; i < kOut; i += 4) {
        uint32_t words[4];
#pragma unroll
        for (int j = 0; j < 4; ++j)
          words[j] =
              pack_pair<S.to>(o[i + j][2 * r] * inverse[r], o[i + j][2 * r + 1] * inverse[r]);
        gather_quad(words);
        const int column = i * 8 + lane % 4 * 8;
        if (inside && column < p.dv)
          *reinterpret_cast<uint4*>(static_cast<uint16_t*>(p.o) + to + column) = {
              words[0], words[1], words[2], words[3]};
      }
    } else {
#pragma unroll
      for (int i = 0; i < kOut; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int column = i * 8 + lane % 4 * 2 + j;
          if (inside && column < p.dv)
            store_one<S.to, S.out>(p.o, to + column * p.o_at[3], o[i][2 * r + j] * inverse[r]);
        }
    }
    if (inside && lane % 4 == 0) store_lse(p, t, head, at, lse[r]);
  }
}

}  // namespace dlblas::attention
