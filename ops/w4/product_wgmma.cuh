// x · w with w in words of 4- or 8-bit codes on Hopper's WGMMA, up to 64 rows of x per block: words
// become f16 or bf16 in registers, the instruction's A (64 columns of w); x in shared memory is B.
// One thread copies stages of 64 rows and 256 columns of w; warpgroups take stages in turn; blocks
// of a cluster take parts of K. In: WgmmaCall; groups of whole 64 rows. Out: y. Numerics: f32 sums;
// those of warpgroups, then of blocks, are added in order.
//
// Warp v has columns 64v … 64v + 63, in four tiles of 16. Its thread with g = lane / 4,
// q = lane % 4 takes: AWQ: word g of the warp's eight, of rows 2q, 2q + 1, 2q + 8, 2q + 9 of each
// 16. Column 8g + 2t + h is row g + 8h of tile t. GPTQ: words of columns 32h + 4g + c. Column c is
// row g + 8 (c % 2) of tile 2h + c / 2; rows 2q and 2q + 1 are byte q of a word, which four threads
// share. i8: rows 2q, 2q + 1, 2q + 8, 2q + 9 of each 16, as two codes each, of columns g + 8h of
// tile t. A scale per column multiplies its sum. A warp's loads of words have no bank conflicts:
// AWQ's and i8's due to the copy engine's swizzle, GPTQ's since four threads read one address.
// Flow: call > validate > select > compile > [launch]. Read next: device/wgmma.cuh, unpack.cuh,
// product_wgmma_cuda.cpp.
#pragma once

#include "device/cluster.cuh"
#include "device/reduce.cuh"
#include "device/tma.cuh"
#include "device/wgmma.cuh"
#include "ops/w4/product_finish.cuh"
#include "ops/w4/unpack.cuh"

namespace dlblas::w4 {

namespace detail {

/// A block's ring and barriers.
template <WgmmaTraits S, WgmmaConfig C>
struct WgmmaShared {
  static constexpr int kStage = C.stage_bytes(S), kX = C.x_bytes(S);
  unsigned char* ring;
  Mbarrier *full, *empty;

  __device__ __forceinline__ explicit WgmmaShared(unsigned char* raw)
      : ring(raw + (1024 - shared_address(raw) % 1024) % 1024),
        full(reinterpret_cast<Mbarrier*>(raw + C.shared_bytes(S) - 16 * C.stages)),
        empty(full + C.stages) {}

  __device__ __forceinline__ unsigned char* words(uint32_t stage) const {
    return ring + stage * kStage;
  }
  __device__ __forceinline__ unsigned char* x(uint32_t stage) const {
    return words(stage) + C.word_bytes(S);
  }
  __device__ __forceinline__ unsigned char* scales(uint32_t stage) const { return x(stage) + kX; }
  __device__ __forceinline__ unsigned char* zeros(uint32_t stage) const {
    return scales(stage) + C.kScales;
  }
};

/// The stages of K that a block takes.
template <WgmmaConfig C>
struct WgmmaDepth {
  int32_t first, count;
  __device__ __forceinline__ WgmmaDepth(int64_t depth, uint32_t part) {
    const auto stages = static_cast<int32_t>((depth + C.kDepth - 1) / C.kDepth);
    first = static_cast<int32_t>(part) * stages / C.split;
    count = (static_cast<int32_t>(part) + 1) * stages / C.split - first;
  }
};

/// All that the copying thread does.
template <WgmmaTraits S, WgmmaConfig C>
__device__ __forceinline__ void copy_stages(const WgmmaCall& call, const WgmmaShared<S, C>& shared,
                                            const WgmmaDepth<C>& depth, int32_t n, int32_t m) {
  constexpr uint32_t kBytes =
      C.word_bytes(S) + C.x_bytes(S) + (S.i8() ? 0 : C.kScales + (S.zeros ? C.kZeros : 0));
  const auto group = static_cast<int32_t>(call.p.w.group);
  int32_t k = depth.first * C.kDepth, row = k / group, left = group - k % group;
  RingPlace<C.stages> at;
#pragma unroll 1
  for (int32_t i = 0; i < depth.count; ++i, at.advance()) {
    Mbarrier& full = shared.full[at.stage];
    shared.empty[at.stage].wait(at.parity ^ 1);
    full.arrive_expect_tx(kBytes);
    if constexpr (S.i8())
      tma_load<CacheHint::kFirst>(shared.words(at.stage), call.words, full, Tile2{k, n});
    else if constexpr (S.along_k())
      tma_load<CacheHint::kFirst>(shared.words(at.stage), call.words, full, Tile2{n, k / 8});
    else
      tma_load<CacheHint::kFirst>(shared.words(at.stage), call.words, full, Tile2{n / 8, k});
    tma_load(shared.x(at.stage), call.x, full, Tile2{k, m});
    if constexpr (!S.i8()) tma_load(shared.scales(at.stage), call.scales, full, Tile2{n, row});
    if constexpr (S.zeros) tma_load(shared.zeros(at.stage), call.zeros, full, Tile2{n / 8, row});
    k += C.kDepth, left -= C.kDepth;
    if (left == 0) ++row, left = group;
  }
}

/// The negated lift and zero of a thread's columns, and their scales, in both halves of a word.
template <WgmmaTraits S>
struct WgmmaGroup {
  static constexpr bool kBf = S.type == DType::kBF16;
  // 1 in each half. Where a word holds rows, the high half's nibble is three (bf16: its mantissa
  // has seven bits) or four bits further up, so its factor is 1/8 or 1/16.
  static constexpr uint32_t kOnes = kBf ? 0x3f803f80u : 0x3c003c00u;
  static constexpr uint32_t kRows = kBf ? 0x3e003f80u : 0x2c003c00u;
  static constexpr uint32_t kTimes = S.along_k() ? kRows : kOnes;
  uint32_t minus[8], factor[8];

  template <class T>
  __device__ static __forceinline__ T at(const unsigned char* from) {
    return *reinterpret_cast<const T*>(from);
  }
  /// Loads a thread's eight columns from the scales and zeros of its warp's 64.
  __device__ __forceinline__ void load(const unsigned char* scales, const unsigned char* zeros,
                                       int g, uint32_t plus, uint32_t mask) {
    if constexpr (!S.along_k()) {
      const uint4 scale = at<uint4>(scales + g * 16);
      const uint32_t pairs[4] = {scale.x, scale.y, scale.z, scale.w};
      uint32_t zero = 0x88888888u;
      if constexpr (S.zeros) zero = at<uint32_t>(zeros + g * 4);
#pragma unroll
      for (int tile = 0; tile < 4; ++tile) {
        const uint32_t both = lifted_pair<S.type>(zero >> 4 * tile, mask) ^ 0x80008000u;
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
          minus[2 * tile + odd] = __byte_perm(both, 0, odd ? 0x3232 : 0x1010);
          factor[2 * tile + odd] = __byte_perm(pairs[tile], 0, odd ? 0x3232 : 0x1010);
        }
      }
    } else {
      // Low and high half: bf16 −(128 + z) and −(16 + z); f16 −(1024 + z) and −(64 + z).
      constexpr uint32_t kBase = kBf ? 0xc180c300u : 0xd400e400u, kStep = kBf ? 0x80001 : 0x100001;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const uint2 scale = at<uint2>(scales + (32 * h + 4 * g) * 2);
        uint32_t zero = 0x8888u;
        if constexpr (S.zeros) zero = at<uint32_t>(zeros + (4 * h + g / 2) * 4) >> g % 2 * 16;
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          minus[4 * h + c] = kBase + ((zero >> 4 * c & 15u) + (S.zeros ? plus : 0)) * kStep;
          factor[4 * h + c] = __byte_perm(c < 2 ? scale.x : scale.y, 0, c % 2 ? 0x3232 : 0x1010);
        }
      }
    }
  }
};

/// A warpgroup's products of the stages that it takes.
template <WgmmaTraits S, WgmmaConfig C>
struct WgmmaProduct {
  static constexpr auto kInput = S.type == DType::kBF16 ? WgmmaInput::kBF16 : WgmmaInput::kF16;
  using Sums = float[4][S.rows / 2];
  using Step = uint32_t[4][4];  // of 16 rows of w: four tiles as A
  using Words = uint32_t[S.codes == Codes::kAwq ? 4 : 16];
  using Group = WgmmaGroup<S>;
  static constexpr int kSteps = C.kDepth / 16;
  // Where registers suffice, the next step's words are in flight while these become A.
  static constexpr bool kAhead = !S.along_k() || S.rows <= 32;

  static_assert(C.stages >= 2 * C.groups, "a warpgroup holds a stage while it waits for its next");

  const WgmmaShared<S, C>& shared;
  int warp, g, q;  // of the warpgroup
  uint32_t mask, high;

  /// Loads a thread's words of step u of a stage.
  __device__ __forceinline__ void fetch(Words& word, const unsigned char* words, int u) const {
    if constexpr (S.i8()) {
      const unsigned char* const from = words + (64 * warp + g) * 64 + ((u ^ g / 2) * 16 + 2 * q);
#pragma unroll
      for (int i = 0; i < 16; ++i)  // the tile, eight columns of it, eight rows of w
        word[i] = Group::template at<uint16_t>(from + i / 2 * 8 * 64 + i % 2 * 8);
    } else if constexpr (!S.along_k()) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = 16 * u + 2 * q + i % 2 + i / 2 * 8;
        const int chunk = (2 * warp + g / 4) ^ (2 * q + i % 2);
        word[i] = Group::template at<uint32_t>(words + row * 128 + chunk * 16 + g % 4 * 4);
      }
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {  // the word's row, then 32 columns
        const uint4 four = Group::template at<uint4>(words + (2 * u + i / 2) * 4 * C.kColumns +
                                                     (64 * warp + i % 2 * 32 + 4 * g) * 4);
        word[4 * i] = four.x, word[4 * i + 1] = four.y;
        word[4 * i + 2] = four.z, word[4 * i + 3] = four.w;
      }
    }
  }
  __device__ __forceinline__ void unpack(Step& a, const Words& word, const Group& of) const {
    if constexpr (S.i8()) {
#pragma unroll
      for (int tile = 0; tile < 4; ++tile)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          a[tile][i] = codes_pair<S.type>(word[4 * tile + i % 2 * 2 + i / 2], 0, mask);
    } else if constexpr (!S.along_k()) {
      uint32_t half[2][2];
      // Nibbles of even columns are in the low half of a word, of odd ones in the high half: joins
      // the halves of two rows.
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        half[i][0] = __byte_perm(word[2 * i], word[2 * i + 1], 0x5410);
        half[i][1] = __byte_perm(word[2 * i], word[2 * i + 1], 0x7632);
      }
#pragma unroll
      for (int tile = 0; tile < 4; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int column = 2 * tile + i % 2;
          a[tile][i] = moved_pair<S.type>(lifted_pair<S.type>(half[i / 2][i % 2] >> 4 * tile, mask),
                                          Group::kTimes, of.minus[column], of.factor[column]);
        }
      }
    } else {
      const uint32_t bytes = q * 0x1111u + 0x4400u;  // byte q of one word, then of another
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        const int r = i / 8, column = i % 8, h = column / 4, c = column % 4;
        const uint32_t moved = S.type == DType::kBF16 ? word[i] >> 1 : word[i];
        const uint32_t pair = __byte_perm(word[i], moved, bytes);
        a[2 * h + c / 2][2 * r + c % 2] = moved_pair<S.type>(
            lifted_pair<S.type>(pair, high), Group::kTimes, of.minus[column], of.factor[column]);
      }
    }
  }

  /// A stage is released during the next one, once its last products have ended.
  __device__ __forceinline__ void run(Sums& d, const WgmmaDepth<C>& depth, int group_size,
                                      int which, uint32_t plus) const {
    RingPlace<C.stages> at, before;
    at.advance(static_cast<uint32_t>(which));
    Group group;
    Step a[2];
    Words word[2];
    int32_t in_group = (depth.first + which) * C.kDepth % group_size;  // rows before this stage's
    bool fresh = true, reads = false;  // the stage before is not released yet
#pragma unroll
    for (int tile = 0; tile < 4; ++tile) wgmma_pin(d[tile]);  // zeros are no constants (C7515)
#pragma unroll 1
    for (int32_t i = which; i < depth.count; i += C.groups) {
      shared.full[at.stage].wait(at.parity);
      if (!S.i8() && fresh)
        group.load(shared.scales(at.stage) + warp * 128, shared.zeros(at.stage) + warp * 32, g,
                   plus, mask);
      if constexpr (!S.i8()) {
        in_group += C.groups * C.kDepth, fresh = in_group >= group_size;
        while (in_group >= group_size) in_group -= group_size;
      }
      const unsigned char* const words = shared.words(at.stage);
      const uint64_t x = wgmma_tile_k(shared.x(at.stage));
#pragma unroll
      for (int u = 0; u < kSteps; ++u) {
        Step& step = a[u % 2];
        if (!kAhead || u == 0) fetch(word[u % 2], words, u);
        if (kAhead && u + 1 < kSteps) fetch(word[(u + 1) % 2], words, u + 1);
        wgmma_wait<1>();  // what read these registers two steps ago
        hold(step);
        if (u == 1 && reads && threadIdx.x % 32 == 0) shared.empty[before.stage].arrive();
        unpack(step, word[u % 2], group);
        wgmma_fence();
#pragma unroll
        for (int tile = 0; tile < 4; ++tile)
          wgmma_from_registers<S.rows, kInput, WgmmaMajor::kK>(d[tile], step[tile],
                                                               wgmma_advance(x, 32 * u));
        wgmma_commit();
      }
      before = at, reads = true;
      at.advance(C.groups);
    }
    wgmma_wait<0>();
#pragma unroll
    for (int tile = 0; tile < 4; ++tile) wgmma_pin(d[tile]);
  }

  /// Up to this point, the registers belong to products in flight.
  __device__ static __forceinline__ void hold(Step& a) {
#pragma unroll
    for (int tile = 0; tile < 4; ++tile)
      asm volatile("" : "+r"(a[tile][0]), "+r"(a[tile][1]), "+r"(a[tile][2]), "+r"(a[tile][3]));
  }

  /// The place, in pairs, of columns 2c and 2c + 1 of row m among a block's sums: no bank
  /// conflicts, whether tiles are written or rows are read.
  __device__ static __forceinline__ int place(int m, int c) {
    const int swizzle =
        S.i8() ? (m >> 1 & 3) << 2 : (m >> 1 & 1) | (m >> 2 & 1) << (S.along_k() ? 3 : 1);
    return m * (C.kColumns / 2) + (c ^ swizzle);
  }
  /// The row of x of a thread's sum i.
  __device__ __forceinline__ int row_of(int i) const { return i / 2 * 8 + 2 * q + i % 2; }
  /// Stores the sums; kAdd: adds them to those already there.
  template <bool kAdd>
  __device__ __forceinline__ void keep(float2* sums, const Sums& d) const {
#pragma unroll
    for (int tile = 0; tile < 4; ++tile) {
      if constexpr (S.i8()) {  // a thread's two columns of a tile are eight apart
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int column = 64 * warp + 16 * tile + 8 * h + g;
          const auto at = [&](int i) -> float& {
            return reinterpret_cast<float*>(sums + place(row_of(i), column / 2))[column % 2];
          };
          float sum[S.rows / 4] = {};
          if constexpr (kAdd) {
#pragma unroll
            for (int i = 0; i < S.rows / 4; ++i) sum[i] = at(i);
          }
#pragma unroll
          for (int i = 0; i < S.rows / 4; ++i) at(i) = sum[i] + d[tile][i / 2 * 4 + i % 2 + 2 * h];
        }
      } else {
        const int c = 32 * warp + (S.along_k() ? 16 * (tile / 2) + 2 * g + tile % 2 : 4 * g + tile);
        const auto at = [&](int i) -> float2& { return sums[place(row_of(i), c)]; };
        float2 sum[S.rows / 4] = {};
        if constexpr (kAdd) {
#pragma unroll
          for (int i = 0; i < S.rows / 4; ++i) sum[i] = at(i);
        }
#pragma unroll
        for (int i = 0; i < S.rows / 4; ++i) {
          const int r = i / 2 * 4 + i % 2;
          at(i) = {sum[i].x + d[tile][r], sum[i].y + d[tile][r + 2]};
        }
      }
    }
  }
};

}  // namespace detail

template <WgmmaTraits S, WgmmaConfig C>
__global__ void __launch_bounds__(C.threads(), 1)
    product_wgmma(const __grid_constant__ WgmmaCall call) {
  using namespace detail;
  extern __shared__ __align__(128) unsigned char raw[];
  constexpr int kThreads = 128 * C.groups;  // those that multiply
  const ProductParams& p = call.p;
  const WgmmaShared<S, C> shared(raw);
  const int thread = static_cast<int>(threadIdx.x), group = thread / 128;
  const uint32_t part = C.split > 1 ? cluster_rank() : 0;
  const auto n = static_cast<int32_t>(blockIdx.x / C.split) * C.kColumns;
  const auto m = static_cast<int32_t>(blockIdx.z) * S.rows;
  if (thread == 0) {
    for (int s = 0; s < C.stages; ++s) shared.full[s].init(1), shared.empty[s].init(4);
    fence_mbarrier_init();
    tma_prefetch_map(call.words), tma_prefetch_map(call.x);
    if constexpr (!S.i8()) tma_prefetch_map(call.scales);
  }
  __syncthreads();
  wait_for_dependencies();
  launch_dependents();

  using Product = WgmmaProduct<S, C>;
  const WgmmaDepth<C> depth(p.w.depth, part);
  const bool bf = S.type == DType::kBF16;
  const Product product{shared,
                        thread % 128 / 32,
                        thread % 32 / 4,
                        thread % 4,
                        S.i8() ? low_bits_mask(p.w.depth) : nibble_mask(p.w.depth),
                        nibble_mask(p.w.depth) & 0xffffu | (bf ? 0x780000u : 0xf00000u)};
  if (group == C.groups) {
    if constexpr (C.groups > 1) release_registers<C.few()>();
    if (thread % 128 == 0) copy_stages<S, C>(call, shared, depth, n, m);
    __syncwarp();
    if constexpr (C.split > 1) cluster_sync(), cluster_sync();
    return;
  }
  if constexpr (C.groups > 1) take_registers<C.many()>();
  auto* const sums = reinterpret_cast<float2*>(shared.ring);
  {
    typename Product::Sums d = {};
    product.run(d, depth, static_cast<int>(p.w.group), group, static_cast<uint32_t>(p.w.plus));
    barrier_sync(1, kThreads);  // the ring is free: what was copied was waited for
#pragma unroll
    for (int of = 0; of < C.groups; ++of) {
      if (of > 0) barrier_sync(1, kThreads);
      if (group != of) continue;
      if (of == 0)
        product.template keep<false>(sums, d);
      else
        product.template keep<true>(sums, d);
    }
  }
  if constexpr (C.split > 1)
    cluster_sync();
  else
    barrier_sync(1, kThreads);
  // Each block finishes its share of the pairs.
  const int rows = static_cast<int>(p.m - m < S.rows ? p.m - m : S.rows);
  const int all = rows * (C.kColumns / 2);
  const bool pairs =
      p.w.y.col == 1 && reinterpret_cast<uint64_t>(p.w.y.data) % 4 == 0 && p.w.y.row % 2 == 0;
  constexpr int kOnce = C.split >= 4 ? 2 : 8 / C.split, kStep = kThreads * C.split;
#pragma unroll 1
  for (int first = thread + static_cast<int>(part) * kThreads; first < all;
       first += kOnce * kStep) {
    float2 parts[kOnce][C.split];
#pragma unroll
    for (int i = 0; i < kOnce; ++i) {
      const int e = min(first + i * kStep, all - 1);
      const float2* const mine = sums + Product::place(e / (C.kColumns / 2), e % (C.kColumns / 2));
#pragma unroll
      for (int s = 0; s < C.split; ++s)
        parts[i][s] = C.split > 1 ? load_cluster(map_to_rank(mine, s)) : *mine;
    }
#pragma unroll
    for (int i = 0; i < kOnce; ++i) {
      const int e = first + i * kStep;
      const int64_t to = m + e / (C.kColumns / 2), column = n + 2 * (e % (C.kColumns / 2));
      float2 sum = parts[i][0];
#pragma unroll
      for (int s = 1; s < C.split; ++s) sum.x += parts[i][s].x, sum.y += parts[i][s].y;
      if (e >= all || column >= p.w.columns) continue;
      const bool two = !S.i8() || column + 1 < p.w.columns;
      sum.x = finished<S>(p, column, sum.x);
      if (two) sum.y = finished<S>(p, column + 1, sum.y);
      if (pairs && two) {
        Values<2> both;
        both.v[0] = sum.x, both.v[1] = sum.y;
        store_vec<S.type, 2, 4>(p.w.y.data, to * p.w.y.row + column, rounded<S.type>(both));
      } else {
        store_y<S.type>(p.w, to, column, sum.x);
        if (two) store_y<S.type>(p.w, to, column + 1, sum.y);
      }
    }
  }
  if constexpr (C.split > 1) cluster_sync();  // others have read this block's sums
}

}  // namespace dlblas::w4
