// The main loop of the WGMMA form for 1-byte elements, e4m3 or i8. Unlike in GemmProduct, the
// tensor cores sum 128 of K at a time, and the warpgroup adds those sums in f32, multiplied by
// their scales where blocks of K have them; i8 sums without such scales stay in the tensor core.
// In: A [m, K] and B [n, K] along K, described to the copy engine as pairs of bytes: block_k = 64
// pairs are 128 of K. P says which scales exist:
//   kBlockScales               one scale per 128 of K of each row of A, one per 128 of K of 128
//                              columns: operands kAScale {data, row}, kAScale + 1 {-, group},
//                              kBScale {data, group}, kBScale + 1 {-, block}, f32, any strides
// Numerics: one order of sums, whatever the tile. A thread with at most 64 sums has two sets of
// accumulators: one is multiplied while the other is added. One with 128 (256 x 128, 128 x 256)
// has 64 accumulators and multiplies two units of 64 x 128 in turn; the tensor cores multiply the
// other warpgroup's unit while it adds. Read next: wgmma_mainloop.cuh, device/wgmma_codes.cuh.
#pragma once

#include "device/gemm/wgmma_mainloop.cuh"
#include "device/wgmma_codes.cuh"

namespace dlblas {

template <GemmTraits S, GemmWgmmaConfig C, class P>
class GemmCodeProduct {
 public:
  static_assert(C.block_k == 64 && !C.pingpong && !C.swapped && !C.stream);
  static_assert(S.a_by_depth && S.b_by_depth && S.span == 0);
  static constexpr int kRowBlocks = C.row_blocks();
  using Sums = float[kRowBlocks][C.block_n / 2];

  __device__ __forceinline__ GemmCodeProduct(const GemmRing<S, C>& ring, int32_t rows)
      : ring_(ring),
        a_(wgmma_tile_k(ring.tiles + rows * 128)),
        b_(wgmma_tile_k(ring.tiles + C.a_bytes())) {}

  /// Starts the next tile: `at` is this warpgroup's corner, `first` the tile's first group of K.
  __device__ __forceinline__ void begin(const GemmWgmmaCall& call, GemmCorner at, int32_t first) {
    if constexpr (P::kBlockScales) {
      const GemmOperand &a = call.operands[P::kAScale], &b = call.operands[P::kBScale];
      begin_scales(call, at.column, call.m - at.row, first,
                   static_cast<const float*>(a.data) + at.row * a.stride,
                   static_cast<const float*>(b.data));
    }
  }
  /// The same with explicit scales: of this warpgroup's first row, with `rows` rows left from it
  /// on, and of the first column.
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
    ask(0);
  }

  __device__ __forceinline__ void run(Sums& sums, int32_t count, int32_t) {
    if constexpr (S.type == DType::kI8 && !P::kBlockScales) {
      int32_t whole[kUnits][kUnit];
      issue_all<false>(whole);
#pragma unroll 1
      for (int32_t i = 1; i < count; ++i) {
        issue_all<true>(whole);
        wgmma_wait<1>();
        release();
      }
      wgmma_wait<0>();
#pragma unroll
      for (auto& unit : whole) wgmma_pin(unit);
      release();
#pragma unroll
      for (int u = 0; u < kUnits; ++u)
#pragma unroll
        for (int i = 0; i < kUnit; ++i) sum(sums, u, i) = static_cast<float>(whole[u][i]);
    } else if constexpr (C.sums() > 64) {
#pragma unroll
      for (int i = 0; i < C.sums(); ++i) sum(sums, i / kUnit, i % kUnit) = 0;
      Part part[kUnit];
      const auto step = [&](int32_t group) {
        arrived();
#pragma unroll
        for (int u = 0; u < kUnits; ++u) {
          issue<false>(part, u);
          wgmma_commit();
          done<0>(part);
          if (u == kUnits - 1) at_.advance(), release();
          promote(sums, part, u, group);
        }
      };
      fours(count / kFour, [&] {
#pragma unroll
        for (int32_t g = 0; g < kFour; ++g) step(g);
      });
#pragma unroll 1
      for (int32_t g = 0; g < count % kFour; ++g) step(g);
    } else {
#pragma unroll
      for (float& v : sums[0]) v = 0;
      Part part[2][kUnit];
      const auto next_stage = [&](Part(&next)[kUnit]) {
        arrived();
        issue<false>(next, 0);
        wgmma_commit();
        at_.advance();
      };
      next_stage(part[0]);
      // One set is multiplied while the other is added.
      const auto step = [&](Part(&now)[kUnit], Part(&next)[kUnit], int32_t group) {
        next_stage(next);
        done<1>(now);
        release();
        promote(sums, now, 0, group);
      };
      const auto last = [&](Part(&now)[kUnit], int32_t group) {
        done<0>(now);
        release();
        promote(sums, now, 0, group);
      };
      const int32_t whole = (count - 1) / kFour;  // one group at least is left
      fours(whole, [&] {
#pragma unroll
        for (int32_t g = 0; g < kFour; g += 2)
          step(part[0], part[1], g), step(part[1], part[0], g + 1);
      });
      const int32_t left = count - whole * kFour;
      if (left > 2) step(part[0], part[1], 0), step(part[1], part[0], 1);
      const int32_t done_groups = left > 2 ? 2 : 0;
      if (left % 2 == 0) {
        step(part[0], part[1], done_groups);
        last(part[1], done_groups + 1);
      } else {
        last(part[0], done_groups);
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
  /// Tiles begin at multiples of their width, so borders between blocks of 128 columns are at
  /// multiples of kSame within a tile, which touches at most kBlocks blocks.
  static constexpr int common(int n) {
    int of = 128;
    while (n % of) of /= 2;
    return of;
  }
  static constexpr int kSame = common(C.block_n) < C.block_n ? common(C.block_n) : C.block_n;
  static constexpr int kBlocks = (128 - common(C.block_n) + C.block_n + 127) / 128;
  /// What one instruction multiplies: 64 rows by a unit's columns. A warpgroup has one unit, or
  /// two: its row blocks, or the halves of 256 columns, which are a block of scales each.
  static constexpr bool kHalves = C.block_n == 256;
  static constexpr int kUnits = kHalves ? 2 : kRowBlocks;
  static constexpr int kUnit = C.sums() / kUnits;  // sums of a thread
  static_assert(kUnits <= 2 && (!kHalves || kRowBlocks == 1));
  static_assert(kUnits == 1 || kUnit <= 64, "beside 128 sums there is room for 64 accumulators");
  static constexpr uint32_t kNextA = kHalves ? 0 : 64 * 128, kNextB = kHalves ? 128 * 128 : 0;
  __device__ static __forceinline__ float& sum(Sums& sums, int u, int i) {
    return kHalves ? sums[0][u * kUnit + i] : sums[u][i];
  }
  static constexpr int32_t kFour = 4;  // groups whose scales are asked for together

  const GemmRing<S, C>& ring_;
  uint64_t a_, b_;  // of stage 0
  RingPlace<C.stages> at_, oldest_;
  const GemmWgmmaCall* call_;
  const float *from_a_, *from_b_;
  int32_t first_, groups_, rows_left_, within_, columns_left_;
  // For group lane % 4 of four: the four lanes that share two rows hold one group each. Scales are
  // requested four groups ahead, since memory takes longer than the multiplication of one group.
  uint32_t next_a_[2 * kRowBlocks], next_b_[kBlocks];
  float factors_[2 * kRowBlocks][kBlocks];

  /// Requests the scales of four groups from `i` on, for rows and groups that exist.
  __device__ __forceinline__ void ask(int32_t i) {
    const int32_t group = first_ + i + static_cast<int32_t>(threadIdx.x) % kFour;
    const bool there = group < groups_;
    const float* const a = from_a_ + group * call_->operands[P::kAScale + 1].stride;
#pragma unroll
    for (int h = 0; h < 2 * kRowBlocks; ++h) {
      const int32_t row = h / 2 * 64 + h % 2 * 8;
      next_a_[h] =
          ask_word(a + row * call_->operands[P::kAScale].stride, there && row < rows_left_);
    }
    const float* const b = from_b_ + group * call_->operands[P::kBScale].stride;
#pragma unroll
    for (int x = 0; x < kBlocks; ++x)
      next_b_[x] = ask_word(b + x * call_->operands[P::kBScale + 1].stride,
                            there && x * 128 < columns_left_);
  }
  __device__ __forceinline__ void take() {
#pragma unroll
    for (int h = 0; h < 2 * kRowBlocks; ++h)
#pragma unroll
      for (int x = 0; x < kBlocks; ++x)
        factors_[h][x] = float_from_bits(next_a_[h]) * float_from_bits(next_b_[x]);
  }
  /// Runs `body` `whole` times, for four groups each; then factors_ are those of the remaining
  /// groups. The body is straight-line code: no register that waits for memory is moved within it.
  template <class F>
  __device__ __forceinline__ void fours(int32_t whole, const F& body) {
    if constexpr (P::kBlockScales) take();
#pragma unroll 1
    for (int32_t i = 0; i < whole; ++i) {
      if constexpr (P::kBlockScales) ask((i + 1) * kFour);
      body();
      if constexpr (P::kBlockScales) take();
    }
  }

  /// Waits for the next stage.
  __device__ __forceinline__ void arrived() const { ring_.full[at_.stage].wait(at_.parity); }
  /// Issues the products of a unit of that stage.
  template <bool kAccumulate, class T>
  __device__ __forceinline__ void issue(T (&part)[kUnit], int unit) const {
    const uint32_t bytes = at_.stage * GemmRing<S, C>::kStageBytes;
    if constexpr (!kAccumulate) wgmma_pin(part);
    wgmma_fence();
    wgmma_codes(part, wgmma_advance(a_, bytes + unit * kNextA),
                wgmma_advance(b_, bytes + unit * kNextB), kAccumulate);
  }
  /// Waits for the next stage and issues the products of all units.
  template <bool kAccumulate>
  __device__ __forceinline__ void issue_all(int32_t (&whole)[kUnits][kUnit]) {
    arrived();
#pragma unroll
    for (int u = 0; u < kUnits; ++u) issue<kAccumulate>(whole[u], u);
    wgmma_commit();
    at_.advance();
  }
  template <int kPending>
  __device__ __forceinline__ void done(Part (&part)[kUnit]) const {
    wgmma_wait<kPending>();
    wgmma_pin(part);
  }
  __device__ __forceinline__ void release() {
    ring_.release(oldest_.stage);
    oldest_.advance();
  }
  /// `group`: index within the four.
  __device__ __forceinline__ void promote(Sums& sums, const Part (&part)[kUnit], int unit,
                                          int32_t group) const {
    constexpr int kOf = kHalves ? 1 : kBlocks;  // blocks of scales in a unit
    float of[2][kOf];
    if constexpr (P::kBlockScales) {
      const uint32_t from = threadIdx.x % 32 / kFour * kFour + group;
#pragma unroll
      for (int h = 0; h < 2; ++h)
#pragma unroll
        for (int x = 0; x < kOf; ++x)
          of[h][x] = __shfl_sync(0xffffffffu,
                                 kHalves ? factors_[h][unit] : factors_[unit * 2 + h][x], from);
    }
    constexpr int kRun = kHalves ? 128 : kSame;  // columns
#pragma unroll
    for (int c = 0; c < 2 * kUnit; c += kRun) {
      float factor[2] = {of[0][0], of[1][0]};
#pragma unroll
      for (int x = 1; x < kOf; ++x)
#pragma unroll
        for (int h = 0; h < 2; ++h) factor[h] = within_ + c >= 128 * x ? of[h][x] : factor[h];
#pragma unroll
      for (int i = c / 2; i < (c + kRun) / 2; ++i) {
        const auto v = static_cast<float>(part[i]);
        float& d = sum(sums, unit, i);
        d = P::kBlockScales ? fmaf(factor[i / 2 % 2], v, d) : d + v;
      }
    }
    // Not later: `part` is soon written again.
    if constexpr (kUnits == 1)
      wgmma_pin(sums[0]);
    else
      pin_unit(sums, unit);
  }
  __device__ static __forceinline__ void pin_unit(Sums& sums, int unit) {
    if constexpr (kHalves)
      wgmma_pin(reinterpret_cast<float(&)[2][kUnit]>(sums[0])[unit]);
    else
      wgmma_pin(sums[unit]);
  }
};

template <GemmTraits S, GemmWgmmaConfig C, class P>
requires(size_of(S.type) == 1) struct GemmProductOf<S, C, P> {
  using Type = GemmCodeProduct<S, C, P>;
};

}  // namespace dlblas
