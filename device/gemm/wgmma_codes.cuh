// The main loop of the WGMMA form for elements of a byte, e4m3 or i8: as GemmProduct, but tensor
// cores add up 128 of K at a time, and the warpgroup adds those sums up in f32, multiplied by their
// scales where blocks of K have some; sums of i8 without such scales stay in the tensor core.
// In: A [m, K] and B [n, K] along K, described to the copy engine as pairs of bytes: block_k = 64
// pairs are 128 of K. P says which scales there are:
//   kBlockScales               a scale for 128 of K of each row of A, and one for 128 of K of 128
//                              columns: operands kAScale {data, row}, kAScale + 1 {-, group},
//                              kBScale {data, group}, kBScale + 1 {-, block}, f32, any strides
// Numerics: one order of sums, whatever the tile. Two sets of accumulators, where a thread has 64
// of them at most: one is multiplied while the other is added up.  Read next: wgmma_mainloop.cuh,
// device/wgmma_codes.cuh.
#pragma once

#include "device/gemm/wgmma_mainloop.cuh"
#include "device/wgmma_codes.cuh"

namespace dlblas {

template <GemmTraits S, GemmWgmmaConfig C, class P>
class GemmCodeProduct {
 public:
  static_assert(C.block_k == 64 && C.row_blocks() == 1 && !C.pingpong && !C.swapped);
  static_assert(S.a_by_depth && S.b_by_depth && S.span == 0);
  using Sums = float[1][C.block_n / 2];

  __device__ __forceinline__ GemmCodeProduct(const GemmRing<S, C>& ring, int32_t rows)
      : ring_(ring),
        a_(wgmma_tile_k(ring.tiles + rows * 128)),
        b_(wgmma_tile_k(ring.tiles + C.a_bytes())) {}

  /// The next tile: `at` is this warpgroup's corner, `first` the group of K that comes first.
  __device__ __forceinline__ void begin(const GemmWgmmaCall& call, GemmCorner at, int32_t first) {
    if constexpr (P::kBlockScales) {
      const GemmOperand &a = call.operands[P::kAScale], &b = call.operands[P::kBScale];
      begin_scales(call, at.column, call.m - at.row, first,
                   static_cast<const float*>(a.data) + at.row * a.stride,
                   static_cast<const float*>(b.data));
    }
  }
  /// The same with scales of its own: of this warpgroup's first row, of which `rows` follow, and of
  /// the first column.
  __device__ __forceinline__ void begin_scales(const GemmWgmmaCall& call, int32_t column,
                                               int32_t rows, int32_t first, const float* of_a,
                                               const float* of_b) {
    call_ = &call, first_ = first;
    groups_ = (call.k + 63) / 64;
    const auto thread = static_cast<int32_t>(threadIdx.x) % 128;
    const int32_t row = thread / 32 * 16 + thread % 32 / 4;
    from_a_ = of_a + row * call.operands[P::kAScale].stride;
    from_b_ = of_b + column / 128 * call.operands[P::kBScale + 1].stride;
    within_ = column % 128, columns_left_ = call.n - column / 128 * 128;
    rows_left_ = rows - row;
    ask_a(scale_a_, 0), ask_b(scale_b_, 0);
    ask_a(next_a_, 4), ask_b(next_b_, 32);
  }

  __device__ __forceinline__ void run(Sums& sums, int32_t count, int32_t) {
    auto& d = sums[0];
    if constexpr (S.type == DType::kI8 && !P::kBlockScales) {
      int32_t whole[C.block_n / 2];
      issue<false>(whole);
#pragma unroll 1
      for (int32_t i = 1; i < count; ++i) {
        issue<true>(whole);
        wgmma_wait<1>();
        release();
      }
      done<0>(whole);
      release();
#pragma unroll
      for (int i = 0; i < C.block_n / 2; ++i) d[i] = static_cast<float>(whole[i]);
    } else if constexpr (C.sums() > 64) {
#pragma unroll
      for (float& v : d) v = 0;
      Part part[C.block_n / 2];
#pragma unroll 1
      for (int32_t i = 0; i < count; ++i) {
        issue<false>(part);
        const Factors f = factors(i);
        done<0>(part);
        release();
        promote(d, part, f);
      }
    } else {
#pragma unroll
      for (float& v : d) v = 0;
      Part part0[C.block_n / 2], part1[C.block_n / 2];
      issue<false>(part0);
      Factors f0 = factors(0), f1;
      int32_t i = 0;
#pragma unroll 1
      for (; i + 2 < count; i += 2) {
        issue<false>(part1);
        f1 = factors(i + 1);
        done<1>(part0);
        release();
        promote(d, part0, f0);
        issue<false>(part0);
        f0 = factors(i + 2);
        done<1>(part1);
        release();
        promote(d, part1, f1);
      }
      if (i + 1 < count) {
        issue<false>(part1);
        f1 = factors(i + 1);
        done<1>(part0);
        release();
        promote(d, part0, f0);
        done<0>(part1);
        release();
        promote(d, part1, f1);
      } else {
        done<0>(part0);
        release();
        promote(d, part0, f0);
      }
    }
  }

 private:
  template <bool kIntegers, int kUnused = 0>
  struct PartOf {
    using Type = float;
  };
  template <int kUnused>
  struct PartOf<true, kUnused> {
    using Type = int32_t;
  };
  using Part = typename PartOf<S.type == DType::kI8>::Type;
  /// Tiles begin at multiples of their width: borders between blocks of 128 columns lie at
  /// multiples of kSame in them, and they touch kBlocks blocks at most.
  static constexpr int common(int n) {
    int of = 128;
    while (n % of) of /= 2;
    return of;
  }
  static constexpr int kSame = common(C.block_n) < C.block_n ? common(C.block_n) : C.block_n;
  static constexpr int kBlocks = (128 - common(C.block_n) + C.block_n + 127) / 128;
  /// Of a thread's two rows, and of the tile's blocks of columns.
  struct Factors {
    float a[2], b[kBlocks];
  };

  const GemmRing<S, C>& ring_;
  uint64_t a_, b_;  // of stage 0
  RingPlace<C.stages> at_, oldest_;
  const GemmWgmmaCall* call_;
  const float *from_a_, *from_b_;
  int32_t first_, groups_, rows_left_, within_, columns_left_;
  // A lane's: of a, group lane % 4 of four; of b, group lane of 32. Those that follow are asked for
  // as many groups ahead: memory answers later than the next group is multiplied.
  uint32_t scale_a_[2], scale_b_[kBlocks], next_a_[2], next_b_[kBlocks];

  /// Scales of four groups from `i` on, a lane of the four that hold a row each; of rows and groups
  /// that exist.
  __device__ __forceinline__ void ask_a(uint32_t (&scale)[2], int32_t i) {
    const int32_t group = first_ + i + static_cast<int32_t>(threadIdx.x) % 4;
    const float* from = from_a_ + group * call_->operands[P::kAScale + 1].stride;
    scale[0] = ask_word(from, group < groups_ && 0 < rows_left_);
    scale[1] =
        ask_word(from + 8 * call_->operands[P::kAScale].stride, group < groups_ && 8 < rows_left_);
  }
  __device__ __forceinline__ void ask_b(uint32_t (&scale)[kBlocks], int32_t i) {
    const int32_t group = first_ + i + static_cast<int32_t>(threadIdx.x) % 32;
    const float* from = from_b_ + group * call_->operands[P::kBScale].stride;
#pragma unroll
    for (int x = 0; x < kBlocks; ++x)
      scale[x] = ask_word(from + x * call_->operands[P::kBScale + 1].stride,
                          group < groups_ && (x == 0 || x * 128 < columns_left_));
  }
  template <int kCount>
  __device__ static __forceinline__ void take(uint32_t (&to)[kCount],
                                              const uint32_t (&from)[kCount]) {
#pragma unroll
    for (int x = 0; x < kCount; ++x) to[x] = from[x];
  }
  /// Of group i; called once for each, in order.
  __device__ __forceinline__ Factors factors(int32_t i) {
    Factors f = {};
    if constexpr (P::kBlockScales) {
      const uint32_t from = threadIdx.x % 32 / 4 * 4 + i % 4;
#pragma unroll
      for (int h = 0; h < 2; ++h)
        f.a[h] = float_from_bits(__shfl_sync(0xffffffffu, scale_a_[h], from));
#pragma unroll
      for (int x = 0; x < kBlocks; ++x)
        f.b[x] = float_from_bits(__shfl_sync(0xffffffffu, scale_b_[x], i % 32));
      if (i % 4 == 3) take(scale_a_, next_a_), ask_a(next_a_, i + 5);
      if (i % 32 == 31) take(scale_b_, next_b_), ask_b(next_b_, i + 33);
    }
    return f;
  }

  /// Waits for the next stage and multiplies it.
  template <bool kAccumulate, class T, int kCount>
  __device__ __forceinline__ void issue(T (&part)[kCount]) {
    ring_.full[at_.stage].wait(at_.parity);
    const uint32_t bytes = at_.stage * GemmRing<S, C>::kStageBytes;
    if constexpr (!kAccumulate) wgmma_pin(part);
    wgmma_fence();
    wgmma_codes(part, wgmma_advance(a_, bytes), wgmma_advance(b_, bytes), kAccumulate);
    wgmma_commit();
    at_.advance();
  }
  template <int kPending, class T, int kCount>
  __device__ __forceinline__ void done(T (&part)[kCount]) const {
    wgmma_wait<kPending>();
    wgmma_pin(part);
  }
  __device__ __forceinline__ void release() {
    ring_.release(oldest_.stage);
    oldest_.advance();
  }
  __device__ __forceinline__ void promote(float (&d)[C.block_n / 2],
                                          const Part (&part)[C.block_n / 2],
                                          const Factors& f) const {
#pragma unroll
    for (int c = 0; c < C.block_n; c += kSame) {
      float b = f.b[0];
#pragma unroll
      for (int x = 1; x < kBlocks; ++x) b = within_ + c >= 128 * x ? f.b[x] : b;
      const float factor[2] = {f.a[0] * b, f.a[1] * b};
#pragma unroll
      for (int i = c / 2; i < (c + kSame) / 2; ++i) {
        const auto v = static_cast<float>(part[i]);
        d[i] = P::kBlockScales ? fmaf(factor[i / 2 % 2], v, d[i]) : d[i] + v;
      }
    }
    wgmma_pin(d);  // not later: `part` is soon written again
  }
};

template <GemmTraits S, GemmWgmmaConfig C, class P>
requires(size_of(S.type) == 1) struct GemmProductOf<S, C, P> {
  using Type = GemmCodeProduct<S, C, P>;
};

}  // namespace dlblas
