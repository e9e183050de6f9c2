// A thread's two rows of scores in attention_wgmma: the bias, the cap, the mask and the online
// softmax. In: products of q and k of a block of keys. Out: numerators in their place, the rows'
// sums, and the factor of earlier blocks' results. Numerics: online_softmax.cuh. Read next:
// attention_wgmma.cuh.
#pragma once

#include "ops/attention/cuda/attention_wgmma_shared.cuh"

namespace dlblas::attention::wgmma_detail {

/// Whether a maximum stays until a score exceeds it by kSlack, so that sums are rescaled rarely: 64
/// of 515 instructions for 128 keys. Off until its values and times have been seen on a GPU.
inline constexpr bool kMaximaStay = false;

template <AttentionTraits S, AttentionWgmmaConfig C>
struct ScoreRows {
  static constexpr int kN = C.keys, kDv = S.dv;
  static constexpr float kSlack = S.type == DType::kBF16 ? 8.0f : 4.0f;  // of an exponent

  /// The traits without the bias.
  static constexpr AttentionTraits kUnbiased = [] {
    AttentionTraits s = S;
    s.bias = DType::kAbsent;
    return s;
  }();

  const AttentionParams& p;
  const Shared<S, C>& shared;
  int32_t column;     // of a block's keys, this thread's first
  int32_t part = 0;   // the 64 rows of the tile that this warpgroup multiplies
  RingPlace<2> slot;  // of the tile that is met
  float scale, factor, most[2], sum[2], rescale[2];

  /// The first of this thread's rows.
  __device__ __forceinline__ int32_t own() const {
    const int32_t thread = static_cast<int32_t>(threadIdx.x) % 128;
    return part * 64 + thread / 32 * 16 + thread % 32 / 4;
  }
  /// The keys that this thread's row `row` (of two) sees.
  __device__ __forceinline__ KeyRange sight(int32_t row) const {
    const Tile& t = shared.slots[slot.stage].tile;
    return visible(p, t, min(t.first + own() + 8 * row, t.q_rows - 1));
  }
  /// The bias of a block's scores. Pairs are loaded while products run; single elements, whose
  /// registers would spill, when they are added.
  static constexpr bool kPairs = in_pairs(S.bias_in);
  static constexpr int kBiasRows = of_one_row(S.bias_in) ? 1 : 2;
  struct NoBias {};
  struct BiasPairs {
    Vec<S.bias, 2> of[kBiasRows][kN / 8];
  };
  using Bias = decltype([] {
    if constexpr (kPairs)
      return BiasPairs{};
    else
      return NoBias{};
  }());
  /// The offset of the first element for this thread's row `row` of block n.
  __device__ __forceinline__ int64_t bias_from(int32_t row, int32_t n) const {
    const Tile& t = shared.slots[slot.stage].tile;
    const int64_t head = t.batch * p.bias_at[0] + t.head * p.bias_at[1] + n * kN + column;
    return kBiasRows == 1 ? head
                          : head + min(t.first + own() + 8 * row, t.q_rows - 1) * p.bias_at[2];
  }
  /// Loads the bias of block n. Not `clean`: keys from k_rows on are in the block, and have none.
  __device__ __forceinline__ void bring_bias(Bias& bias, int32_t n, bool clean) const {
    if constexpr (kPairs) {
      using Pair = Vec<S.bias, 2>;
      const int32_t left = shared.slots[slot.stage].tile.k_rows - n * kN - column;
#pragma unroll
      for (int r = 0; r < kBiasRows; ++r) {
        const int64_t from = bias_from(r, n);
        if (clean) {
#pragma unroll
          for (int i = 0; i < kN / 8; ++i)
            bias.of[r][i] = load_vec<S.bias, 2, 2 * size_of(S.bias)>(p.bias, from + i * 8);
        } else {
#pragma unroll
          for (int i = 0; i < kN / 8; ++i) {
            bias.of[r][i] = Pair::zero();
            if (left - i * 8 >= 2)
              bias.of[r][i] = load_vec<S.bias, 2, 2 * size_of(S.bias)>(p.bias, from + i * 8);
            else if (left - i * 8 == 1)
              bias.of[r][i].words[0] =
                  load_vec<S.bias, 1, size_of(S.bias)>(p.bias, from + i * 8).words[0];
          }
        }
      }
    }
  }
  /// Turns products of block n of the tile into scores with a bias.
  __device__ __forceinline__ void add_bias(float (&s)[kN / 2], const Bias& bias, int32_t n) const {
    int64_t from[kBiasRows];
    int32_t left = 0;
    if constexpr (!kPairs) {
      left = shared.slots[slot.stage].tile.k_rows - n * kN - column;
#pragma unroll
      for (int r = 0; r < kBiasRows; ++r) from[r] = bias_from(r, n);
    }
#pragma unroll
    for (int i = 0; i < kN / 8; ++i) {
      float b[kBiasRows][2];
#pragma unroll
      for (int r = 0; r < kBiasRows; ++r) {
        if constexpr (kPairs) {
          const FloatPair two = bias.of[r][i].pair(0);
          b[r][0] = two.low, b[r][1] = two.high;
        } else {
#pragma unroll
          for (int j = 0; j < 2; ++j)
            b[r][j] = left - i * 8 > j
                          ? load_one<S.bias, Reach::kElement>(p.bias, from[r] + i * 8 + j)
                          : 0.0f;
        }
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float& x = s[4 * i + j];
        const float with = b[kBiasRows == 1 ? 0 : j / 2][j % 2];
        if constexpr (S.cap)
          x = scaled_score<kUnbiased>(p, scale, x, 0, 0) + with;
        else
          x = fmaf(x, scale, with);
      }
    }
  }
  /// Turns the scores of block n of the tile into numerators.
  __device__ __forceinline__ void softmax(float (&s)[kN / 2], const Bias& bias, int32_t n,
                                          bool clean) {
    if constexpr (S.bias != DType::kAbsent) {
      add_bias(s, bias, n);
    } else if constexpr (S.cap) {
#pragma unroll
      for (float& x : s) x = scaled_score<S>(p, scale, x, 0, 0);
    } else if (scale <= 0) [[unlikely]] {
#pragma unroll
      for (float& x : s) x = scaled_score<S>(p, scale, x, 0, 0);
    }
    if (!clean) {
      const int32_t first_key = n * kN + column;
      const KeyRange seen[2] = {sight(0), sight(1)};
      const int32_t end0 = seen[0].end - first_key, end1 = seen[1].end - first_key;
#pragma unroll
      for (int i = 0; i < kN / 2; ++i)
        s[i] = i / 4 * 8 + (i & 1) < (i & 2 ? end1 : end0) ? s[i] : minus_infinity();
      if (p.window >= 0) {
        const int32_t from0 = seen[0].first - first_key, from1 = seen[1].first - first_key;
#pragma unroll
        for (int i = 0; i < kN / 2; ++i)
          s[i] = i / 4 * 8 + (i & 1) >= (i & 2 ? from1 : from0) ? s[i] : minus_infinity();
      }
    }
    float peaks[2][2];
#pragma unroll
    for (int r = 0; r < 2; ++r) peaks[r][0] = s[2 * r], peaks[r][1] = s[2 * r + 1];
#pragma unroll
    for (int i = 4; i < kN / 2; ++i)
      peaks[i >> 1 & 1][i & 1] = fmaxf(peaks[i >> 1 & 1][i & 1], s[i]);
    float peak[2], base[2], shift[2];
    bool far[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) peak[r] = fmaxf(peaks[r][0], peaks[r][1]);
#pragma unroll
    for (int lanes = 1; lanes <= 2; ++lanes)
#pragma unroll
      for (int r = 0; r < 2; ++r)
        peak[r] = fmaxf(peak[r], __shfl_xor_sync(0xffffffffu, peak[r], lanes));
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      peak[r] = fmaxf(peak[r], most[r]);
      if constexpr (kMaximaStay)
        if ((peak[r] - most[r]) * factor <= kSlack) peak[r] = most[r];
      const ExponentBase by = exponent_base(peak[r], factor);
      base[r] = by.base, far[r] = by.far;
      shift[r] = rescale_exponent({by.base, false}, most[r], peak[r], factor);
    }
    if (far[0] || far[1]) [[unlikely]] {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float less = far[r] ? peak[r] : 0.0f;
        if (far[r]) shift[r] = rescale_exponent({base[r], true}, most[r], peak[r], factor);
#pragma unroll
        for (int i = 0; i < kN / 2; i += 4) s[i + 2 * r] -= less, s[i + 2 * r + 1] -= less;
      }
    }
    float sums[2][2] = {{0, 0}, {0, 0}};
#pragma unroll
    for (int r = 0; r < 2; ++r) rescale[r] = DeviceMath::exp2(shift[r]), most[r] = peak[r];
#pragma unroll
    for (int i = 0; i < kN / 2; ++i) {
      s[i] = DeviceMath::exp2(fmaf(s[i], factor, -base[i >> 1 & 1]));
      sums[i >> 1 & 1][i & 1] += s[i];
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) sum[r] = fmaf(sum[r], rescale[r], sums[r][0] + sums[r][1]);
  }
  __device__ __forceinline__ void rescale_sums(float (&o)[kDv / 2]) {
    if constexpr (kMaximaStay)
      if (!__any_sync(0xffffffffu, rescale[0] != 1 || rescale[1] != 1)) return;
#pragma unroll
    for (int i = 0; i < kDv / 2; ++i) o[i] *= rescale[i >> 1 & 1];
  }
  /// Keeps the exponentials ahead of the wait that follows: ptxas (13.0) otherwise moves the wait
  /// for P·V up to right after the maximum. A never-taken branch on the sums, around a warp
  /// barrier, ends the basic block here.
  __device__ __forceinline__ void hold() const {
    asm volatile(
        "{\n\t.reg .pred never;\n\tsetp.lt.f32 never, %0, 0f00000000;\n\t"
        "@never bra.uni over;\n\tbar.warp.sync 0xffffffff;\n\tover:\n\t}" ::"f"(sum[0] + sum[1])
        : "memory");
  }
};

}  // namespace dlblas::attention::wgmma_detail
