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
//   scaling warpgroup  full[s] → ready[s], teams of warps in turn; then factors → scaled
//   multiplying        full[s], ready[s] → WGMMA; then factors, again → judged → all
//
// Read next: wgmma_mainloop.cuh, docs/notes/gemm.md ("A norm in front").
#pragma once

#include "device/gemm/wgmma_mainloop.cuh"
#include "device/reduce.cuh"
#include "device/scale.cuh"
#include "device/vec.cuh"

namespace dlblas {

/// kWarps: of a team, which takes every kTeams-th stage, so that the latencies of several stages
/// overlap; kRows: the most rows of A. (H200: all four warps on each stage took 0.5 µs a stage of
/// 128 of K, whatever the number of rows.)
template <GemmTraits S, GemmWgmmaConfig C, DType kGain, int kWarps, int kRows>
class GemmScaler {
  static_assert(C.normed() && S.a_by_depth && S.type == DType::kBF16 && kWarps <= 2);

 public:
  __device__ __forceinline__ GemmScaler(const GemmWgmmaCall& call, const GemmRing<S, C>& ring)
      : call_(call),
        ring_(ring),
        team_(static_cast<int32_t>(threadIdx.x) % 128 / (32 * kWarps)),
        row_(static_cast<int32_t>(threadIdx.x) % (32 * kWarps) / 8),
        chunk_(static_cast<int32_t>(threadIdx.x) % 8),
        first_(shared_address(ring.tiles) + row_ * 128 + (chunk_ ^ row_) * 16) {}

  __device__ __forceinline__ void run() {
    const RowScale<S.type> none[kEach] = {};
    pass<false>(none);
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
    pass<true>(scales);
  }

 private:
  static constexpr int kTeams = 4 / kWarps;
  /// Eight threads share a row; a thread has the same eight columns of every kApart-th row.
  static constexpr int kApart = 4 * kWarps, kEach = kRows / kApart;
  /// Rows whose words are loaded before the first is used. Past the last row lies whatever does,
  /// and what becomes of it does not matter: a branch for each row cost more than the row.
  static constexpr int kAtOnce = 4;
  static_assert(kRows % kApart == 0 && kEach % kAtOnce == 0);
  const GemmWgmmaCall& call_;
  const GemmRing<S, C>& ring_;
  int32_t team_, row_, chunk_;
  uint32_t first_;
  RingPlace<C.stages> at_;
  float squares_[kEach] = {};

  __device__ __forceinline__ bool inside(int i) const { return row_ + kApart * i < call_.m; }
  /// Bytes from row_ to the thread's i-th row. The swizzle exchanges chunks by the row modulo 8.
  __device__ __forceinline__ uint32_t place(uint32_t tile, int s, int i) const {
    return (tile ^ (kApart == 4 && i % 2 == 1 ? 64u : 0u)) + (s * C.block_m + i * kApart) * 128;
  }

  /// The gain of this thread's columns; zeros past the end, as in A.
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
  __device__ __forceinline__ void change(uint32_t (&words)[4], float& square,
                                         const Vec<kGain, 8>& g,
                                         const RowScale<S.type>& scale) const {
    if constexpr (kScaled) {
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const FloatPair x = unpack_pair<S.type>(words[w]), factor = g.pair(w);
        words[w] = pack_pair<S.type>(x.low * scale.first * scale.second * factor.low,
                                     x.high * scale.first * scale.second * factor.high);
      }
    } else {
      float part[2] = {};
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const FloatPair x = unpack_pair<S.type>(words[w]);
        part[0] = fmaf(x.low, x.low, part[0]);
        part[1] = fmaf(x.high, x.high, part[1]);
      }
      square += part[0] + part[1];
      multiply(words, g);
    }
  }

  /// A team waits for all stages, in order: a wait by parity may not skip a round of the ring.
  template <bool kScaled>
  __device__ __forceinline__ void pass(const RowScale<S.type> (&scales)[kEach]) {
    const int32_t count = (call_.k + C.block_k - 1) / C.block_k;
#pragma unroll 1
    for (int32_t stage = 0; stage < count; ++stage, at_.advance()) {
      ring_.full[at_.stage].wait(at_.parity);
      if (stage % kTeams != team_) continue;
      const uint32_t tile = first_ + at_.stage * GemmRing<S, C>::kStageBytes;
#pragma unroll
      for (int s = 0; s < C.steps(); ++s) {
        const Vec<kGain, 8> g = gain(stage * C.block_k, s);
#pragma unroll
        for (int from = 0; from < kEach; from += kAtOnce) {
          if (kEach > kAtOnce && kApart * from >= call_.m) break;
          uint32_t words[kAtOnce][4];
#pragma unroll
          for (int i = 0; i < kAtOnce; ++i) load_shared(words[i], place(tile, s, from + i));
#pragma unroll
          for (int i = 0; i < kAtOnce; ++i)
            change<kScaled>(words[i], squares_[from + i], g, scales[from + i]);
#pragma unroll
          for (int i = 0; i < kAtOnce; ++i) store_shared(place(tile, s, from + i), words[i]);
        }
      }
      fence_async_shared();
      __syncwarp();
      if (threadIdx.x % 32 < kTeams) ring_.ready[at_.stage].arrive();  // it counts four
    }
  }

  /// Factors of all rows: NaN where f32 does not hold the mean, or the factor is so large or small
  /// that x · gain and its sums might leave f32's range where normalised values do not.
  __device__ __forceinline__ void publish() const {
    constexpr float kLeast = 0x1p-48f, kMost = 0x1p48f;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      float sum = squares_[i];
#pragma unroll
      for (int lanes = 1; lanes < 8; lanes *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
      if (chunk_ == 0) ring_.factors[team_ * C.block_m + row_ + kApart * i] = sum;
    }
    asm volatile("bar.sync 5, 128;" ::: "memory");
    const auto row = static_cast<int32_t>(threadIdx.x) % 128;
    if (row < kRows) {
      float sum = 0;
#pragma unroll
      for (int t = 0; t < kTeams; ++t) sum += ring_.factors[t * C.block_m + row];
      const float mean = fmaf(sum, call_.scalars[kGemmInverseK], call_.scalars[kGemmEps]);
      const bool holds = mean >= kLeast && mean <= kMost;
      ring_.factors[row] = holds ? reciprocal_root(mean) : float_from_bits(0x7fc00000u);
    }
    __syncwarp();
    if (threadIdx.x % 32 == 0) ring_.scaled->arrive();
  }

  __device__ __forceinline__ double wide_squares(int i) const {
    const GemmOperand& x = call_.operands[kGemmNormedPlace];
    double sum = 0;
    if (inside(i)) {
#pragma unroll 1
      for (int32_t k = chunk_; k < call_.k; k += 8) {
        const double v =
            load_vec<S.type, 1, 2>(x.data, (row_ + kApart * i) * x.stride + k).pair(0).low;
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
  if (C.block_m == 64 && call.m <= 16)
    GemmScaler<S, C, kGain, 1, 16>(call, ring).run();
  else
    GemmScaler<S, C, kGain, 2, C.block_m>(call, ring).run();
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
