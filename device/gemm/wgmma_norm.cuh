// Rows of A normalised on their way to WGMMA: D = program(r[m] · Σ_k round(x[m, k] · gain[k]) ·
// b[n, k]), r = 1/√(mean_K(x²) + eps). One more warpgroup, behind the multiplying ones, multiplies
// each stage's tile of A by the gain, in place, and adds up the rows' squares; r, which is known
// after the last stage, multiplies the sums. So a norm costs no launch and no pass over x.
// In: bf16, a gain of bf16 or f32 (call.operands[kGemmGainPlace]); one tile a block, all rows in
// it. Out: as without a norm. Numerics: squares in f32, in chains of a stage and chains of stages;
// x · gain is rounded once, to the type of A. Where f32 does not hold a mean square, or a scaled
// sum is not finite, all of the tile is computed again, from rows that are normalised first, as the
// norm alone does: with squares in f64 and x · r · gain rounded once. So Inf, NaN and rows of any
// size give what they do there.
//
//   copying thread     → full[s]     copies the gain as well; after all, it waits for the verdict
//   scaling warpgroup  full[s] → ready[s] (its four warps), then factors → scaled
//   multiplying        full[s], ready[s] → WGMMA; then factors, again → judged → all
//
// Read next: wgmma_mainloop.cuh, docs/notes/gemm.md ("A norm in front").
#pragma once

#include "device/gemm/wgmma_mainloop.cuh"
#include "device/reduce.cuh"
#include "device/scale.cuh"
#include "device/vec.cuh"

namespace dlblas {

template <GemmTraits S, GemmWgmmaConfig C, DType kGain>
class GemmScaler {
  static_assert(C.normed() && S.a_by_depth && S.type == DType::kBF16);

 public:
  __device__ __forceinline__ GemmScaler(const GemmWgmmaCall& call, const GemmRing<S, C>& ring)
      : call_(call),
        ring_(ring),
        row_(static_cast<int32_t>(threadIdx.x) % 128 / 8),
        chunk_(static_cast<int32_t>(threadIdx.x) % 8 ^ row_ % 8),
        first_(shared_address(ring.tiles) + threadIdx.x % 128 * 16) {}

  __device__ __forceinline__ void run() {
    const int32_t count = (call_.k + C.block_k - 1) / C.block_k;
    const RowScale<S.type> none[kEach] = {};
    pass<false>(count, none);
    publish();
    if (!ring_.comes_again()) return;
    RowScale<S.type> scales[kEach];
    const double eps = __hiloint2double(__float_as_int(call_.scalars[kGemmEps64 + 1]),
                                        __float_as_int(call_.scalars[kGemmEps64]));
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const double mean = wide_squares(i) / call_.k + eps;
      const bool outside = mean < 0x1p-100 || mean > 0x1p126;  // false for NaN
      scales[i] = outside ? RowScale<S.type>::wide_root(mean)
                          : RowScale<S.type>::root(static_cast<float>(mean));
    }
    pass<true>(count, scales);
  }

 private:
  /// A thread has the same 16 bytes of a row of 128 in every 16th row: all of one chunk of K, since
  /// the swizzle exchanges chunks within 8 rows.
  static constexpr int kEach = C.block_m / 16;
  const GemmWgmmaCall& call_;
  const GemmRing<S, C>& ring_;
  int32_t row_, chunk_;
  uint32_t first_;
  RingPlace<C.stages> at_;
  float squares_[kEach] = {};

  __device__ __forceinline__ bool inside(int i) const { return row_ + 16 * i < call_.m; }
  __device__ static __forceinline__ float sum_of_row(float v) {
#pragma unroll
    for (int lanes = 1; lanes < 8; lanes *= 2) v += __shfl_xor_sync(0xffffffffu, v, lanes);
    return v;
  }

  /// The gain of this thread's chunk; zeros past the end, as in A.
  __device__ __forceinline__ Vec<kGain, 8> gain(int32_t k, int s) const {
    constexpr int kBytes = size_of(kGain);
    Vec<kGain, 8> g = Vec<kGain, 8>::zero();
    const uint32_t from =
        shared_address(ring_.gains) + (at_.stage * C.block_k + s * 64 + chunk_ * 8) * kBytes;
    if (k + s * 64 + chunk_ * 8 >= call_.k) return g;
#pragma unroll
    for (int i = 0; i < kBytes / 2; ++i) {
      uint32_t words[4];
      load_shared(words, from + i * 16);
#pragma unroll
      for (int w = 0; w < 4; ++w) g.words[i * 4 + w] = words[w];
    }
    return g;
  }

  /// Words of eight elements times the gain, each rounded once.
  __device__ static __forceinline__ void multiply(uint32_t (&words)[4], const Vec<kGain, 8>& g) {
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      if constexpr (kGain == DType::kBF16) {
        asm("mul.rn.bf16x2 %0, %0, %1;" : "+r"(words[w]) : "r"(g.words[w]));
      } else {
        const FloatPair x = unpack_pair<S.type>(words[w]), factor = g.pair(w);
        words[w] = pack_pair<S.type>(x.low * factor.low, x.high * factor.high);
      }
    }
  }

  template <bool kScaled>
  __device__ __forceinline__ void pass(int32_t count, const RowScale<S.type> (&scales)[kEach]) {
#pragma unroll 1
    for (int32_t stage = 0; stage < count; ++stage, at_.advance()) {
      const uint32_t tile = first_ + at_.stage * GemmRing<S, C>::kStageBytes;
      float part[kEach] = {};
      ring_.full[at_.stage].wait(at_.parity);
#pragma unroll
      for (int s = 0; s < C.steps(); ++s) {
        const Vec<kGain, 8> g = gain(stage * C.block_k, s);
        uint32_t words[kEach][4];  // all are under way before the first is used
#pragma unroll
        for (int i = 0; i < kEach; ++i)
          if (inside(i)) load_shared(words[i], tile + (s * C.block_m + i * 16) * 128);
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          if (!inside(i)) continue;
          if constexpr (kScaled) {
#pragma unroll
            for (int w = 0; w < 4; ++w) {
              const FloatPair x = unpack_pair<S.type>(words[i][w]), factor = g.pair(w);
              const float low = x.low * scales[i].first * scales[i].second;
              const float high = x.high * scales[i].first * scales[i].second;
              words[i][w] = pack_pair<S.type>(low * factor.low, high * factor.high);
            }
          } else {
#pragma unroll
            for (int w = 0; w < 4; ++w) {
              const FloatPair x = unpack_pair<S.type>(words[i][w]);
              part[i] = fmaf(x.low, x.low, part[i]);
              part[i] = fmaf(x.high, x.high, part[i]);
            }
            multiply(words[i], g);
          }
          store_shared(tile + (s * C.block_m + i * 16) * 128, words[i]);
        }
      }
      fence_async_shared();
      __syncwarp();
      if (threadIdx.x % 32 == 0) ring_.ready[at_.stage].arrive();
      if constexpr (!kScaled) {
#pragma unroll
        for (int i = 0; i < kEach; ++i) squares_[i] += part[i];
      }
    }
  }

  /// NaN for a row whose mean f32 does not hold, or whose factor is so large or small that x · gain
  /// and its sums might leave f32's range where normalised values do not.
  __device__ __forceinline__ void publish() const {
    constexpr float kLeast = 0x1p-48f, kMost = 0x1p48f;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const float mean =
          fmaf(sum_of_row(squares_[i]), call_.scalars[kGemmInverseK], call_.scalars[kGemmEps]);
      const bool holds = mean >= kLeast && mean <= kMost;
      if (threadIdx.x % 8 == 0)
        ring_.factors[row_ + 16 * i] = holds ? reciprocal_root(mean) : float_from_bits(0x7fc00000u);
    }
    __syncwarp();
    if (threadIdx.x % 32 == 0) ring_.scaled->arrive();
  }

  __device__ __forceinline__ double wide_squares(int i) const {
    const GemmOperand& x = call_.operands[kGemmNormedPlace];
    double sum = 0;
    if (inside(i)) {
#pragma unroll 1
      for (int32_t k = static_cast<int32_t>(threadIdx.x) % 8; k < call_.k; k += 8) {
        const double v = load_vec<S.type, 1, 2>(x.data, (row_ + 16 * i) * x.stride + k).pair(0).low;
        sum += v * v;
      }
    }
#pragma unroll
    for (int lanes = 1; lanes < 8; lanes *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
    return sum;
  }
};

template <GemmTraits S, GemmWgmmaConfig C, DType kGain>
__device__ __forceinline__ void scale_stages(const GemmWgmmaCall& call,
                                             const GemmRing<S, C>& ring) {
  GemmScaler<S, C, kGain>(call, ring).run();
}

/// One tile's sums, scaled. Sums of rows past the last are whatever lies there: not looked at.
template <GemmTraits S, GemmWgmmaConfig C, class Product>
__device__ __forceinline__ void run_normed(Product& product, typename Product::Sums& d,
                                           int32_t count, const GemmWgmmaCall& call,
                                           const GemmRing<S, C>& ring, int32_t group) {
  constexpr float kLargest = 0x1.fffffep127f;
  RingPlace<C.stages> at;
  const auto ready = [&](int32_t, uint32_t) {
    ring.ready[at.stage].wait(at.parity);
    at.advance();
  };
  product.run(d, count, group, ready);
  ring.scaled->wait(0);
  const auto thread = static_cast<int32_t>(threadIdx.x) % 128;
  const int32_t first = group * 64 * C.row_blocks() + thread / 32 * 16 + thread % 32 / 4;
  bool finite = true;
#pragma unroll
  for (int r = 0; r < C.row_blocks(); ++r)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int32_t row = first + r * 64 + 8 * h;
      const float factor = *static_cast<volatile float*>(ring.factors + row);
#pragma unroll
      for (int j = 0; j < C.block_n / 8; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& sum = d[r][j * 4 + h * 2 + e];
          sum *= factor;
          finite = finite && (row >= call.m || fabsf(sum) <= kLargest);
        }
    }
  if (!finite) *static_cast<volatile int32_t*>(ring.again) = 1;
  __syncwarp();
  if (thread % 32 == 0) ring.judged->arrive();
  if (ring.comes_again()) product.run(d, count, group, ready);
}

/// As gemm_wgmma. P::kGain: the gain's type.
template <GemmTraits S, GemmWgmmaConfig C, class P>
__global__ void __launch_bounds__(with_norm(C, size_of(P::kGain)).threads(), 1)
    gemm_wgmma_normed(const __grid_constant__ GemmWgmmaCall call) {
  gemm_wgmma_block<S, with_norm(C, size_of(P::kGain)), P>(call);
}

}  // namespace dlblas
