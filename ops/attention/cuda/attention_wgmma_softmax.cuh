// A thread's two rows of scores in attention_wgmma: the bias, the cap, the mask and the online
// softmax. Numerators are relative to a maximum of some earlier block, which stays until they grow
// large: while tensor cores work for another warpgroup, instructions take 4 to 5 cycles each, and
// looking for maxima and rescaling results would be 165 of 515 for 128 keys. In: products of q
// and k of a block of keys. Out: numerators, the rows' sums, and, where a maximum has changed, the
// factor of earlier blocks' results. Numerics: online_softmax.cuh; numerators are at most kMost.
// Read next: attention_wgmma.cuh, attention_cap.cuh.
#pragma once

#include "ops/attention/cuda/attention_cap.cuh"
#include "ops/attention/cuda/attention_wgmma_shared.cuh"

namespace dlblas::attention::wgmma_detail {

template <AttentionTraits S, AttentionWgmmaConfig C>
struct ScoreRows {
  static constexpr int kN = C.keys, kDv = S.dv;
  /// A thread's sum of a row's numerators of a block, from which on the row needs a new maximum:
  /// f16, too, holds the numerators.
  static constexpr float kMost = 256;
  /// Scores are the tangents of a cap without a bias, and `factor` has the cap.
  static constexpr bool kTangents = S.cap && S.bias == DType::kAbsent;

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
  /// What exponents of later blocks lose: `most` · `factor`. −∞ if they need the long way: no key
  /// seen yet, or logits so far that scores have to lose the maximum first (exponent.cuh).
  float base[2];

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
  /// The factor from scores to logits in base 2.
  __device__ __forceinline__ float factor_of_scores() const {
    if constexpr (kTangents) return fminf(p.cap * kLog2E, 0x1.fffffep127f);  // 0 · ∞ is NaN
    return factor_of<S>(scale);
  }
  /// Turns products of block n of the tile into scores: −∞ for keys that a row does not see.
  /// kClean: there are none.
  template <bool kClean>
  __device__ __forceinline__ void score(float (&s)[kN / 2], const Bias& bias, int32_t n,
                                        const Blocks& mine) const {
    if constexpr (S.bias != DType::kAbsent) {
      add_bias(s, bias, n);
    } else if constexpr (S.cap) {
      tangents(s, scale, p.cap);
    } else if (scale <= 0) [[unlikely]] {
#pragma unroll
      for (float& x : s) x = scaled_score<S>(p, scale, x, 0, 0);
    }
    if constexpr (kClean) return;
    const int32_t first_key = n * kN + column;
    if (n >= mine.clean_to) {
      const int32_t end0 = sight(0).end - first_key, end1 = sight(1).end - first_key;
#pragma unroll
      for (int i = 0; i < kN / 2; ++i)
        s[i] = i / 4 * 8 + (i & 1) < (i & 2 ? end1 : end0) ? s[i] : minus_infinity();
    }
    if (n < mine.clean_from) {
      const int32_t from0 = sight(0).first - first_key, from1 = sight(1).first - first_key;
#pragma unroll
      for (int i = 0; i < kN / 2; ++i)
        s[i] = i / 4 * 8 + (i & 1) >= (i & 2 ? from1 : from0) ? s[i] : minus_infinity();
    }
  }
  /// The short way: numerators relative to `base`, words kFrom … of them, and their sums. They are
  /// right if accepts() says so; the scores are still there if not.
  template <int kFrom, int kCount>
  __device__ __forceinline__ void numerators(const float (&s)[kN / 2], uint32_t (&words)[kCount],
                                             float (&sums)[2][2]) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int at = 2 * (kFrom + i), r = at >> 1 & 1;
      float x[2];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        x[j] = DeviceMath::exp2(fmaf(s[at + j], factor, -base[r]));
        sums[r][j] += x[j];
      }
      words[i] = pack_pair<S.type>(x[0], x[1]);
    }
  }
  /// Adds a block's sums to the rows' if no row of the warp has one that is too large, or NaN: with
  /// a base of −∞, numerators are ∞ or NaN.
  __device__ __forceinline__ bool accepts(const float (&sums)[2][2]) {
    const float all[2] = {sums[0][0] + sums[0][1], sums[1][0] + sums[1][1]};
    if (!__all_sync(0xffffffffu, all[0] <= kMost && all[1] <= kMost)) return false;
#pragma unroll
    for (int r = 0; r < 2; ++r) sum[r] += all[r];
    return true;
  }
  /// The long way: finds the rows' maxima, and turns scores into numerators in their place.
  __device__ __forceinline__ void weigh(float (&s)[kN / 2]) {
    float peaks[2][2];
#pragma unroll
    for (int r = 0; r < 2; ++r) peaks[r][0] = s[2 * r], peaks[r][1] = s[2 * r + 1];
#pragma unroll
    for (int i = 4; i < kN / 2; ++i)
      peaks[i >> 1 & 1][i & 1] = fmaxf(peaks[i >> 1 & 1][i & 1], s[i]);
    float peak[2], less[2], shift[2];
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
      const ExponentBase by = exponent_base(peak[r], factor);
      less[r] = by.base, far[r] = by.far;
      base[r] = by.far || peak[r] == minus_infinity() ? minus_infinity() : by.base;
      shift[r] = rescale_exponent({by.base, false}, most[r], peak[r], factor);
    }
    if (far[0] || far[1]) [[unlikely]] {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float most_of_far = far[r] ? peak[r] : 0.0f;
        if (far[r]) shift[r] = rescale_exponent({less[r], true}, most[r], peak[r], factor);
#pragma unroll
        for (int i = 0; i < kN / 2; i += 4)
          s[i + 2 * r] -= most_of_far, s[i + 2 * r + 1] -= most_of_far;
      }
    }
    float sums[2][2] = {{0, 0}, {0, 0}};
#pragma unroll
    for (int r = 0; r < 2; ++r) rescale[r] = DeviceMath::exp2(shift[r]), most[r] = peak[r];
#pragma unroll
    for (int i = 0; i < kN / 2; ++i) {
      s[i] = DeviceMath::exp2(fmaf(s[i], factor, -less[i >> 1 & 1]));
      sums[i >> 1 & 1][i & 1] += s[i];
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) sum[r] = fmaf(sum[r], rescale[r], sums[r][0] + sums[r][1]);
  }
  __device__ __forceinline__ void rescale_sums(float (&o)[kDv / 2]) {
#pragma unroll
    for (int i = 0; i < kDv / 2; ++i) o[i] *= rescale[i >> 1 & 1];
  }
  /// Keeps the exponentials ahead of the wait that follows: ptxas (13.0) otherwise moves the wait
  /// for P·V up to before most of them. A never-taken branch on their sums, around a warp barrier,
  /// ends the basic block here.
  __device__ __forceinline__ static void hold(float sums) {
    asm volatile(
        "{\n\t.reg .pred never;\n\tsetp.lt.f32 never, %0, 0f00000000;\n\t"
        "@never bra.uni over;\n\tbar.warp.sync 0xffffffff;\n\tover:\n\t}" ::"f"(sums)
        : "memory");
  }
};

}  // namespace dlblas::attention::wgmma_detail
