// x · w with w in words of 4- or 8-bit codes, for some 64 rows of x: words, x and scales stream
// through a ring in shared memory, words become f16 or bf16 in registers, and mma.sync takes them
// as its A: 16 columns of w by 8 rows of x, so few rows of x waste little. A block has warps along
// N (64 columns each) and along K (64 rows of w each, of every stage); their sums are added at the
// end. In: ProductParams; groups of whole 64 rows of w; rows of 16-byte chunks. Out: y, or f32 sums
// of parts of K. Numerics: f32 sums; warps and parts are added in order.
//
// K may come in any order that x and w share, columns in any order at all. A thread with
// g = lane / 4, q = lane % 4 takes
//   AWQ, 16 rows per step: rows 4q … 4q + 3 of the word of columns 8g … 8g + 7; column 8g + 2t + r
// is row g + 8r of tile t.
//   GPTQ, 32 rows per step: the word of rows 8q … 8q + 7 of columns 32h + 4g + c, c = 0 … 3; column
// c is row g + 8 (c % 2) of tile 2h + c / 2. Nibbles i and i + 4 are sixteen bits apart, so rows i
// and i + 4 form a pair, and x's pairs are formed alike.
//   i8, 64 rows per step: rows 16q … 16q + 15 of columns g and g + 8 of each tile, four per mma. A
// scale per column multiplies its sum.
// The placement of 16-byte chunks in a stage avoids bank conflicts. Flow: call > validate > select
// > compile > [launch].  Read next: device/mma.cuh, unpack.cuh, product_ring_cuda.cpp.
#pragma once

#include "device/cp_async.cuh"
#include "device/mma.cuh"
#include "device/mma_tile.cuh"
#include "ops/w4/product_finish.cuh"
#include "ops/w4/unpack.cuh"

namespace dlblas::w4 {

namespace detail {

constexpr int kRingRows = 64;  // of w, of a warp and stage
/// Bytes of its words.
template <RingTraits S>
constexpr int kRingPart = S.codes == Codes::kI8 ? 4096 : 2048;

/// Copies stage after stage, in order. Each stage commits one cp.async group, even if nothing is
/// left to copy.
template <RingTraits S, RingConfig C>
struct RingCopy {
  static constexpr int kRowsOfX = 8 * S.eights;
  // Chunks per row: of words, x, scales and zeros.
  static constexpr bool kI8 = S.codes == Codes::kI8;
  static constexpr int kWords = kI8           ? C.depth() / 16
                                : S.along_k() ? C.columns() / 4
                                              : C.columns() / 32;
  static constexpr int kX = C.depth() / 8, kScales = C.columns() / 8, kZeros = C.columns() / 32;
  // Rows from one of a thread's chunks of a stage to the next.
  static constexpr int kWordStep = C.threads() / kWords, kXStep = C.threads() / kX;
  static constexpr int kWordCopies = C.word_bytes(S) / 16 / C.threads();
  static constexpr int kXCopies = (kRowsOfX + kXStep - 1) / kXStep;
  static_assert(C.threads() % kWords == 0 && C.threads() % kX == 0);

  // Per stage, a thread copies at most one chunk of scales or zeros.
  static constexpr int kScaleChunks = kI8 ? 0 : C.warps_k * kScales;
  static constexpr int kZeroChunks = kI8 ? 0 : C.warps_k * kZeros;
  static_assert(kScaleChunks + kZeroChunks <= C.threads());

  const ProductParams& p;
  const char *words, *x, *group;
  int64_t group_row;  // bytes
  int32_t left;       // of K, from this thread's stage on
  int32_t rows;       // of x, from this thread's first on
  int32_t columns;    // of the block; of i8
  bool has_words, has_group;
  // This thread's chunk of scales or zeros: its offset in a stage, the first of the stage's rows of
  // w that it serves, that row's place in its group, and the chunk's bytes.
  int32_t group_to, group_k, in_group, group_bytes;

  __device__ __forceinline__ RingCopy(const ProductParams& params, int64_t n, int64_t m,
                                      int64_t begin, int64_t stop)
      : p(params), left(static_cast<int32_t>(stop - begin)) {
    const int thread = static_cast<int>(threadIdx.x);
    const int row = thread / kWords, chunk = thread % kWords;
    columns = static_cast<int>(p.w.columns - n < C.columns() ? p.w.columns - n : C.columns());
    if constexpr (kI8) {
      words = static_cast<const char*>(p.w.q.data) + (n + row) * p.w.q.row + begin + chunk * 16;
    } else {
      const int64_t of_word = S.along_k() ? begin / 8 + row : begin + row;
      words = static_cast<const char*>(p.w.q.data) +
              4 * (of_word * p.w.q.row + (S.along_k() ? n : n / 8) + chunk * 4);
    }
    has_words = n + chunk * (S.along_k() ? 4 : 32) < p.w.columns;
    const int of_x = thread / kX, depth = thread % kX;
    x = static_cast<const char*>(p.x) + 2 * ((m + of_x) * p.x_row + begin + depth * 8);
    rows = static_cast<int>(p.m - m - of_x < kRowsOfX ? p.m - m - of_x : kRowsOfX);
    has_group = false, group = nullptr, group_row = group_to = group_k = in_group = 0;
    if constexpr (kI8) return;
    const bool of_scale = thread < kScaleChunks;
    const int e = of_scale ? thread : thread - kScaleChunks;
    group_k = (of_scale ? e / kScales : e / kZeros) * kRingRows;
    const int64_t column = n + (of_scale ? e % kScales * 8 : e % kZeros * 32);
    const int64_t first = begin + group_k, of_group = first / p.w.group;
    in_group = static_cast<int32_t>(first - of_group * p.w.group);
    group_to = C.word_bytes(S) + C.x_bytes(S.eights) + (of_scale ? 0 : C.scale_bytes(S)) + e * 16;
    // Eight columns of zeros are four bytes: a row may end within a chunk.
    const int64_t zeros = (p.w.columns - column) / 2;
    group_bytes = of_scale || zeros > 16 ? 16 : static_cast<int32_t>(zeros);
    group_row = of_scale ? 2 * p.w.scales.row : 4 * p.w.zeros.row;
    group = (of_scale ? static_cast<const char*>(p.w.scales.data) + 2 * column
                      : static_cast<const char*>(p.w.zeros.data) + column / 2) +
            of_group * group_row;
    has_group = column < p.w.columns && (of_scale || (S.zeros && e < kZeroChunks));
  }

  /// The offset in a stage of a row's chunk of words; of i8: of a column's.
  __device__ static __forceinline__ int place_of_word(int row, int chunk) {
    if constexpr (kI8) {
      const int part = chunk / 4 * C.warps_n + row / 64;
      return part * kRingPart<S> + row % 64 * 64 + chunk % 4 * 16;
    } else if constexpr (S.along_k()) {
      const int part = row / 8 * C.warps_n + chunk / 16, q = row % 4;
      return part * kRingPart<S> + row % 8 / 4 * 1024 + chunk % 16 / 8 * 512 + q * 128 +
             ((chunk % 8) ^ (2 * q)) * 16;
    } else {
      const int part = row / kRingRows * C.warps_n + chunk / 2;
      return part * kRingPart<S> + row % kRingRows / 16 * 512 + row % 4 * 128 + row % 16 / 4 * 32 +
             chunk % 2 * 16;
    }
  }
  /// The offset in a stage of chunk `at` of row m of x.
  __device__ static __forceinline__ int place_of_x(int m, int at) {
    const int swizzled = kI8           ? at % 8 ^ (m & 1)
                         : S.along_k() ? at % 8 ^ ((m & 1) << 2)
                                       : at % 8 ^ ((m & 3) << 1);
    return C.word_bytes(S) + (at / 8 * kRowsOfX + m) * 128 + swizzled * 16;
  }

  __device__ __forceinline__ void copy(uint32_t stage) {
    if (left > 0) {
      const int thread = static_cast<int>(threadIdx.x);
      const int row = thread / kWords, chunk = thread % kWords;
#pragma unroll
      for (int i = 0; i < kWordCopies; ++i) {
        const int at = row + i * kWordStep;
        const bool there = kI8 ? at < columns && chunk * 16 < left
                               : has_words && at * (S.along_k() ? 8 : 1) < left;
        cp_async_or_zero(stage + place_of_word(at, chunk),
                         words + int64_t{kI8 ? 1 : 4} * i * kWordStep * p.w.q.row, there);
      }
      const int of_x = thread / kX, depth = thread % kX;
#pragma unroll
      for (int i = 0; i < kXCopies; ++i) {
        if (i * kXStep >= rows) break;  // zeros lie there
        const int m = of_x + i * kXStep;
        cp_async_or_zero(stage + place_of_x(m, depth), x + int64_t{2} * i * kXStep * p.x_row,
                         depth * 8 < left);
      }
      if (has_group) cp_async(stage + group_to, group, group_k < left ? group_bytes : 0);
    }
    left -= C.depth();
    words += kI8 ? C.depth() : 4 * p.w.q.row * (S.along_k() ? C.depth() / 8 : C.depth());
    x += 2 * C.depth();
    cp_async_commit();
    if constexpr (kI8) return;
    in_group += C.depth();
    while (in_group >= p.w.group) in_group -= static_cast<int32_t>(p.w.group), group += group_row;
  }

  /// Writes zeros to every stage for rows of x, and scales and zeros of columns, that do not exist.
  __device__ __forceinline__ void clear(uint32_t ring) const {
    const int thread = static_cast<int>(threadIdx.x), of_x = thread / kX;
#pragma unroll 1
    for (int s = 0; s < C.stages; ++s) {
      const uint32_t stage = ring + s * C.stage_bytes(S);
      for (int m = of_x; m < kRowsOfX; m += kXStep)
        if (m - of_x >= rows) cp_async_or_zero(stage + place_of_x(m, thread % kX), p.x, false);
      if (!has_group && thread < kScaleChunks + kZeroChunks)
        cp_async_or_zero(stage + group_to, p.x, false);
    }
  }
};

/// A warp's products of one stage: d[tile][rows of x], 16 columns by 8 rows each.
template <RingTraits S, RingConfig C>
struct RingProduct {
  using Sums = float[4][S.eights][4];
  int warp_n, warp_k, g, q;
  uint32_t mask;  // nibble_mask; of i8: low_bits_mask

  template <class T>
  __device__ static __forceinline__ T at(const unsigned char* from) {
    return *reinterpret_cast<const T*>(from);
  }
  __device__ __forceinline__ const unsigned char* words(const unsigned char* stage) const {
    return stage + (warp_k * C.warps_n + warp_n) * kRingPart<S>;
  }
  /// Row 8t + g of x.
  __device__ __forceinline__ const unsigned char* x(const unsigned char* stage, int t) const {
    return stage + C.word_bytes(S) + (warp_k * 8 * S.eights + t * 8 + g) * 128;
  }
  __device__ __forceinline__ const unsigned char* scales(const unsigned char* stage) const {
    return stage + C.word_bytes(S) + C.x_bytes(S.eights) + (warp_k * C.columns() + warp_n * 64) * 2;
  }
  __device__ __forceinline__ const unsigned char* zeros(const unsigned char* stage) const {
    return stage + C.word_bytes(S) + C.x_bytes(S.eights) + C.scale_bytes(S) +
           (warp_k * C.columns() + warp_n * 64) / 2;
  }

  __device__ __forceinline__ void awq(Sums& d, const unsigned char* stage) const {
    const uint4 scale = at<uint4>(scales(stage) + g * 16);
    const uint32_t pairs[4] = {scale.x, scale.y, scale.z, scale.w};
    uint32_t zero = 0x88888888u, minus[8], factor[8];
    if constexpr (S.zeros) zero = at<uint32_t>(zeros(stage) + g * 4);
#pragma unroll
    for (int tile = 0; tile < 4; ++tile) {
      const uint32_t both = lifted_pair<S.type>(zero >> 4 * tile, mask);
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        minus[2 * tile + odd] = __byte_perm(both, 0, odd ? 0x3232 : 0x1010);
        factor[2 * tile + odd] = __byte_perm(pairs[tile], 0, odd ? 0x3232 : 0x1010);
      }
    }
    const unsigned char* const mine = words(stage) + (q * 8 + g) * 4;
#pragma unroll
    for (int u = 0; u < kRingRows / 16; ++u) {
      uint32_t word[4], half[2][2];
#pragma unroll
      for (int i = 0; i < 4; ++i) word[i] = at<uint32_t>(mine + u * 512 + i * 128);
        // Nibbles of even columns are in the low half of a word, of odd ones in the high half:
        // joins the halves of two rows.
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        half[i][0] = __byte_perm(word[2 * i], word[2 * i + 1], 0x5410);
        half[i][1] = __byte_perm(word[2 * i], word[2 * i + 1], 0x7632);
      }
      uint2 b[S.eights];
#pragma unroll
      for (int t = 0; t < S.eights; ++t)
        b[t] = at<uint2>(x(stage, t) + ((2 * u + q / 2) ^ ((g & 3) << 1)) * 16 + q % 2 * 8);
#pragma unroll
      for (int tile = 0; tile < 4; ++tile) {
        uint32_t a[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int odd = i % 2;
          a[i] = scaled_pair<S.type>(lifted_pair<S.type>(half[i / 2][odd] >> 4 * tile, mask),
                                     minus[2 * tile + odd], factor[2 * tile + odd]);
        }
#pragma unroll
        for (int t = 0; t < S.eights; ++t)
          mma_16x8x16<S.type == DType::kBF16>(d[tile][t], a, b[t].x, b[t].y);
      }
    }
  }

  __device__ __forceinline__ void gptq(Sums& d, const unsigned char* stage, uint32_t plus) const {
    uint32_t minus[2][4], factor[2][4];  // of 32 columns each, this thread's four
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const uint2 scale = at<uint2>(scales(stage) + (32 * h + 4 * g) * 2);
      uint32_t zero = 0x8888u;
      if constexpr (S.zeros) zero = at<uint32_t>(zeros(stage) + (4 * h + g / 2) * 4) >> g % 2 * 16;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const uint32_t stored = zero >> 4 * c & 15u;
        minus[h][c] = lifted_pair<S.type>(stored | stored << 16) + (S.zeros ? plus : 0);
        factor[h][c] = __byte_perm(c < 2 ? scale.x : scale.y, 0, c % 2 ? 0x3232 : 0x1010);
      }
    }
#pragma unroll
    for (int u = 0; u < kRingRows / 32; ++u) {
      uint32_t b[S.eights][4];
#pragma unroll
      for (int t = 0; t < S.eights; ++t) {
        const uint4 row = at<uint4>(x(stage, t) + ((4 * u + q) ^ ((g & 1) << 2)) * 16);
        b[t][0] = __byte_perm(row.x, row.z, 0x5410), b[t][1] = __byte_perm(row.x, row.z, 0x7632);
        b[t][2] = __byte_perm(row.y, row.w, 0x5410), b[t][3] = __byte_perm(row.y, row.w, 0x7632);
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const uint4 four =
            at<uint4>(words(stage) + u * 1024 + h * 512 + q * 128 + ((g ^ (2 * q)) & 7) * 16);
        const uint32_t word[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {
#pragma unroll
          for (int step = 0; step < 2; ++step) {
            uint32_t a[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              const int c = 2 * pair + i % 2;
              a[i] =
                  scaled_pair<S.type>(lifted_pair<S.type>(word[c] >> (8 * step + i / 2 * 4), mask),
                                      minus[h][c], factor[h][c]);
            }
#pragma unroll
            for (int t = 0; t < S.eights; ++t)
              mma_16x8x16<S.type == DType::kBF16>(d[2 * h + pair][t], a, b[t][2 * step],
                                                  b[t][2 * step + 1]);
          }
        }
      }
    }
  }

  __device__ __forceinline__ void i8(Sums& d, const unsigned char* stage) const {
    uint4 b[S.eights][2];
#pragma unroll
    for (int t = 0; t < S.eights; ++t) {
#pragma unroll
      for (int i = 0; i < 2; ++i) b[t][i] = at<uint4>(x(stage, t) + ((2 * q + i) ^ (g & 1)) * 16);
    }
#pragma unroll
    for (int tile = 0; tile < 4; ++tile) {
      const unsigned char* const mine = words(stage) + (16 * tile + g) * 64 + q * 16;
      const uint4 low = at<uint4>(mine), high = at<uint4>(mine + 8 * 64);  // columns g and g + 8
      const uint32_t codes[4][2] = {
          {low.x, high.x}, {low.y, high.y}, {low.z, high.z}, {low.w, high.w}};
#pragma unroll
      for (int four = 0; four < 4; ++four) {
        uint32_t a[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) a[i] = codes_pair<S.type>(codes[four][i % 2], i / 2, mask);
#pragma unroll
        for (int t = 0; t < S.eights; ++t) {
          const uint4& of = b[t][four / 2];
          mma_16x8x16<S.type == DType::kBF16>(d[tile][t], a, four % 2 ? of.z : of.x,
                                              four % 2 ? of.w : of.y);
        }
      }
    }
  }

  __device__ __forceinline__ void run(Sums& d, const unsigned char* stage, uint32_t plus) const {
    if constexpr (S.codes == Codes::kI8)
      i8(d, stage);
    else if constexpr (S.along_k())
      gptq(d, stage, plus);
    else
      awq(d, stage);
  }

  /// The sum of column n and row m of the block's tile, from `sums` [warp][register][lane].
  __device__ static __forceinline__ float sum_at(const float* sums, int n, int m) {
    const int c = n % 64;
    constexpr bool kI8 = S.codes == Codes::kI8;
    // The column's row of A, below eight, its tile, and whether it is one of the upper eight.
    const int row = kI8 ? c % 8 : S.along_k() ? c % 32 / 4 : c / 8;
    const int tile = kI8 ? c / 16 : S.along_k() ? c / 32 * 2 + c % 4 / 2 : c % 8 / 2;
    const int upper = kI8 ? c % 16 / 8 : n % 2, lane = row * 4 + m % 8 / 2;
    const int r = (tile * S.eights + m / 8) * 4 + upper * 2 + m % 2;
    float sum = 0;
#pragma unroll
    for (int k = 0; k < C.warps_k; ++k)
      sum += sums[((k * C.warps_n + n / 64) * 16 * S.eights + r) * 32 + lane];
    return sum;
  }
};

}  // namespace detail

template <RingTraits S, RingConfig C>
__global__ void __launch_bounds__(C.threads())
    product_ring(const __grid_constant__ ProductParams p) {
  using namespace detail;
  extern __shared__ __align__(128) unsigned char ring[];
  wait_for_dependencies();
  launch_dependents();
  const int64_t n0 = int64_t{blockIdx.x} * C.columns(), m0 = int64_t{blockIdx.z} * 8 * S.eights;
  const int64_t stages = (p.w.depth + C.depth() - 1) / C.depth();
  const int64_t each = (stages + C.split - 1) / C.split * C.depth();
  const int64_t begin = blockIdx.y * each;
  const int64_t end = begin + each < p.w.depth ? begin + each : p.w.depth;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  using Product = RingProduct<S, C>;
  const Product product{warp % C.warps_n, warp / C.warps_n, lane / 4, lane % 4,
                        S.codes == Codes::kI8 ? low_bits_mask(p.w.depth) : nibble_mask(p.w.depth)};
  const uint32_t plus = static_cast<uint32_t>(p.w.plus) * 0x00010001u;

  RingCopy<S, C> copies(p, n0, m0, begin, end);
  const uint32_t first = shared_address(ring);
  constexpr int kStage = C.stage_bytes(S);
  copies.clear(first);
#pragma unroll 1
  for (int s = 0; s < C.stages - 1; ++s) copies.copy(first + s * kStage);
  typename Product::Sums d = {};
  int reading = 0, filling = C.stages - 1;
#pragma unroll 1
  for (int64_t k = begin; k < end; k += C.depth()) {
    cp_async_wait<C.stages - 2>();
    __syncthreads();  // shows this stage, and ends the reading of the one that is filled next
    copies.copy(first + filling * kStage);
    product.run(d, ring + reading * kStage, plus);
    filling = reading;
    reading = reading + 1 == C.stages ? 0 : reading + 1;
  }
  cp_async_wait<0>();
  __syncthreads();  // the ring is free
  auto* const sums = reinterpret_cast<float*>(ring);
#pragma unroll
  for (int r = 0; r < 16 * S.eights; ++r)
    sums[(warp * 16 * S.eights + r) * 32 + lane] = d[r / 4 / S.eights][r / 4 % S.eights][r % 4];
  __syncthreads();
  const int rows = static_cast<int>(p.m - m0 < 8 * S.eights ? p.m - m0 : 8 * S.eights);
  for (int e = static_cast<int>(threadIdx.x); e < rows * C.columns(); e += C.threads()) {
    const int row = e / C.columns(), column = e % C.columns();
    const int64_t m = m0 + row, n = n0 + column;
    if (n >= p.w.columns) continue;
    const float sum = Product::sum_at(sums, column, row);
    if constexpr (C.split > 1)
      p.partial[(int64_t{blockIdx.y} * p.m + m) * p.w.columns + n] = sum;
    else
      store_y<S.type>(p.w, m, n, finished<S>(p, n, sum));
  }
}

}  // namespace dlblas::w4
