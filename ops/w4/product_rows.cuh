// x · w with w in words of 4- or 8-bit codes, which pass through registers only: packed bytes
// stream from memory, become the dequantised weight's f16 or bf16 values (4 bits: exact difference,
// one rounding of the product; unpack.cuh), and go into mma.sync. The warps of a block divide K;
// blocks divide columns and rows of x. A product may take K in any order that x and w share, and
// columns in any order at all. So a thread with g = lane / 4, q = lane % 4 takes words in their
// layout:
//   AWQ, 16 rows per step: four rows, from 4q on, of the word of columns 8g … 8g + 7; column 8g + t
// is column g of tile t.
//   GPTQ, 32 rows per step: the word of rows 8q … 8q + 7 of columns 32h + 4g + t. Nibbles i and
// i + 4 are sixteen bits apart, so rows i and i + 4 form a pair, and x's pairs are formed alike.
//   i8, 64 rows per step: rows 16q … 16q + 15 of column 8t + g of tile t, four per mma.
// In: ProductParams; groups of whole batches of steps; rows of 16 bytes. Out: y, or f32 sums of
// parts of K. Numerics: f32 sums; warps and parts are added in order. Flow: call > validate >
// select > compile > [launch].  Read next: device/mma.cuh, product_rows_cuda.cpp.
#pragma once

#include "device/mma.cuh"
#include "device/vec.cuh"
#include "ops/w4/product_finish.cuh"
#include "ops/w4/unpack.cuh"

namespace dlblas::w4 {

namespace detail {

constexpr int kTiles = kProductColumns / 8;

/// A warp's batch of steps: words and x as loaded, and the scales and zeros of their group.
template <ProductTraits S, ProductConfig C>
struct AwqBatch {
  uint32_t words[C.unroll][4];
  Vec<S.type, 4> x[C.unroll][S.tiles][2];
  Vec<S.type, 8> scale;
  uint32_t zero;

  __device__ __forceinline__ static int64_t column_of(int tile, int j) { return j * 8 + tile; }

  __device__ __forceinline__ void load(const ProductParams& p, int64_t n0, int64_t m0, int64_t k0,
                                       int64_t end, int g, int q) {
    const W4Params& w = p.w;
    const int64_t n = n0 + 8 * g, r = k0 / w.group;
    const bool there = n < w.columns;
    scale = Vec<S.type, 8>::zero(), zero = 0x88888888u;
    if (there) {
      scale = load_vec<S.type, 8>(w.scales.data, r * w.scales.row + n);
      if constexpr (S.zeros)
        zero = load_vec<DType::kF32, 1, 4>(w.zeros.data, r * w.zeros.row + n / 8).words[0];
    }
#pragma unroll
    for (int u = 0; u < C.unroll; ++u) {
      const int64_t k = k0 + u * 16 + 4 * q;
      const bool inside = k < end;
#pragma unroll
      for (int i = 0; i < 4; ++i)
        words[u][i] = inside && there ? load_vec<DType::kF32, 1, 4, Cache::kDefault>(
                                            w.q.data, (k + i) * w.q.row + n / 8)
                                            .words[0]
                                      : 0;
#pragma unroll
      for (int t = 0; t < S.tiles * 2; ++t) {
        const int64_t m = m0 + t * 8 + g;
        x[u][t / 2][t % 2] =
            inside && m < p.m ? load_vec<S.type, 4>(p.x, m * p.x_row + k) : Vec<S.type, 4>::zero();
      }
    }
  }

  __device__ __forceinline__ void multiply(float (&d)[S.tiles][kTiles][4], const W4Params&) const {
#pragma unroll
    for (int u = 0; u < C.unroll; ++u) {
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        uint32_t v[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
          v[i] = scaled_pair<S.type>(lifted_pair<S.type>(words[u][i] >> 4 * pair),
                                     lifted_pair<S.type>(zero >> 4 * pair), scale.words[pair]);
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
          const uint32_t pick = odd ? 0x7632 : 0x5410;
          const uint32_t b0 = __byte_perm(v[0], v[1], pick), b1 = __byte_perm(v[2], v[3], pick);
#pragma unroll
          for (int t = 0; t < S.tiles; ++t) {
            const uint32_t a[4] = {x[u][t][0].words[0], x[u][t][1].words[0], x[u][t][0].words[1],
                                   x[u][t][1].words[1]};
            mma_16x8x16<S.type == DType::kBF16>(d[t][2 * pair + odd], a, b0, b1);
          }
        }
      }
    }
  }
};

template <ProductTraits S, ProductConfig C>
struct GptqBatch {
  Vec<DType::kF32, 4> words[C.unroll][2];
  Vec<S.type, 8> x[C.unroll][S.tiles][2];
  Vec<S.type, 4> scale[2];
  uint32_t zero[2];  // four nibbles

  __device__ __forceinline__ static int64_t column_of(int tile, int j) {
    return tile / 4 * 32 + j * 4 + tile % 4;
  }

  __device__ __forceinline__ void load(const ProductParams& p, int64_t n0, int64_t m0, int64_t k0,
                                       int64_t end, int g, int q) {
    const W4Params& w = p.w;
    const int64_t r = k0 / w.group;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int64_t n = n0 + 32 * h + 4 * g;
      const bool there = n < w.columns;
      scale[h] = Vec<S.type, 4>::zero(), zero[h] = 0x88888888u;
      if (there) {
        scale[h] = load_vec<S.type, 4>(w.scales.data, r * w.scales.row + n);
        if constexpr (S.zeros)
          zero[h] = load_vec<DType::kF32, 1, 4>(w.zeros.data, r * w.zeros.row + n / 8).words[0] >>
                    g % 2 * 16;
      }
#pragma unroll
      for (int u = 0; u < C.unroll; ++u) {
        const int64_t k = k0 + u * 32 + 8 * q;
        words[u][h] = k < end && there ? load_vec<DType::kF32, 4>(w.q.data, k / 8 * w.q.row + n)
                                       : Vec<DType::kF32, 4>::zero();
      }
    }
#pragma unroll
    for (int u = 0; u < C.unroll; ++u) {
      const int64_t k = k0 + u * 32 + 8 * q;
#pragma unroll
      for (int t = 0; t < S.tiles * 2; ++t) {
        const int64_t m = m0 + t * 8 + g;
        x[u][t / 2][t % 2] =
            k < end && m < p.m ? load_vec<S.type, 8>(p.x, m * p.x_row + k) : Vec<S.type, 8>::zero();
      }
    }
  }

  __device__ __forceinline__ void multiply(float (&d)[S.tiles][kTiles][4],
                                           const W4Params& w) const {
    const uint32_t plus = S.zeros ? static_cast<uint32_t>(w.plus) * 0x00010001u : 0u;
#pragma unroll
    for (int u = 0; u < C.unroll; ++u) {
      uint32_t a[S.tiles][2][4];  // of the two instructions
#pragma unroll
      for (int t = 0; t < S.tiles; ++t) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const auto& row = x[u][t][i % 2];
            a[t][half][i] =
                __byte_perm(row.words[half], row.words[half + 2], i < 2 ? 0x5410 : 0x7632);
          }
        }
      }
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const int h = tile / 4, c = tile % 4;
        const uint32_t word = words[u][h].words[c], stored = zero[h] >> 4 * c & 15u;
        const uint32_t minus = lifted_pair<S.type>(stored | stored << 16) + plus;
        const uint32_t factor = __byte_perm(scale[h].words[c / 2], 0, c % 2 ? 0x3232 : 0x1010);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint32_t b0 =
              scaled_pair<S.type>(lifted_pair<S.type>(word >> 8 * half), minus, factor);
          const uint32_t b1 =
              scaled_pair<S.type>(lifted_pair<S.type>(word >> (8 * half + 4)), minus, factor);
#pragma unroll
          for (int t = 0; t < S.tiles; ++t)
            mma_16x8x16<S.type == DType::kBF16>(d[t][tile], a[t][half], b0, b1);
        }
      }
    }
  }
};

template <ProductTraits S, ProductConfig C>
struct I8Batch {
  Vec<DType::kF32, 4> words[C.unroll][kTiles];
  Vec<S.type, 16> x[C.unroll][S.tiles][2];
  float scale[kTiles];

  __device__ __forceinline__ static int64_t column_of(int tile, int j) { return tile * 8 + j; }

  __device__ __forceinline__ void load(const ProductParams& p, int64_t n0, int64_t m0, int64_t k0,
                                       int64_t end, int g, int q) {
    const W4Params& w = p.w;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const int64_t n = n0 + 8 * tile + g;
      const bool there = n < w.columns;
      if constexpr (!S.scaled_sums)
        scale[tile] = there ? static_cast<const float*>(
                                  w.scales.data)[n * w.scales.row + k0 / w.group * w.scales.col]
                            : 0.0f;
#pragma unroll
      for (int u = 0; u < C.unroll; ++u) {
        const int64_t k = k0 + u * 64 + 16 * q;
        words[u][tile] = k < end && there
                             ? load_vec<DType::kF32, 4>(w.q.data, (n * w.q.row + k) / 4)
                             : Vec<DType::kF32, 4>::zero();
      }
    }
#pragma unroll
    for (int u = 0; u < C.unroll; ++u) {
      const int64_t k = k0 + u * 64 + 16 * q;
#pragma unroll
      for (int t = 0; t < S.tiles * 2; ++t) {
        const int64_t m = m0 + t * 8 + g;
        x[u][t / 2][t % 2] = k < end && m < p.m ? load_vec<S.type, 16>(p.x, m * p.x_row + k)
                                                : Vec<S.type, 16>::zero();
      }
    }
  }

  __device__ __forceinline__ void multiply(float (&d)[S.tiles][kTiles][4],
                                           const W4Params& w) const {
    const uint32_t low = low_bits_mask(w.depth);
#pragma unroll
    for (int u = 0; u < C.unroll; ++u) {
#pragma unroll
      for (int four = 0; four < 4; ++four) {
        uint32_t a[S.tiles][4];
#pragma unroll
        for (int t = 0; t < S.tiles; ++t) {
#pragma unroll
          for (int i = 0; i < 4; ++i) a[t][i] = x[u][t][i % 2].words[2 * four + i / 2];
        }
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          const uint32_t codes = words[u][tile].words[four];
          uint32_t b[2];
#pragma unroll
          for (int pair = 0; pair < 2; ++pair)
            b[pair] = S.scaled_sums ? codes_pair<S.type>(codes, pair, low)
                                    : scaled_codes_pair<S.type>(codes, pair, scale[tile]);
#pragma unroll
          for (int t = 0; t < S.tiles; ++t)
            mma_16x8x16<S.type == DType::kBF16>(d[t][tile], a[t], b[0], b[1]);
        }
      }
    }
  }
};

template <Codes kCodes, ProductTraits S, ProductConfig C>
struct BatchOf {
  using Type = AwqBatch<S, C>;
};
template <ProductTraits S, ProductConfig C>
struct BatchOf<Codes::kGptq, S, C> {
  using Type = GptqBatch<S, C>;
};
template <ProductTraits S, ProductConfig C>
struct BatchOf<Codes::kI8, S, C> {
  using Type = I8Batch<S, C>;
};

}  // namespace detail

template <ProductTraits S, ProductConfig C>
__global__ void __launch_bounds__(C.threads())
    product_rows(const __grid_constant__ ProductParams p) {
  using namespace detail;
  using Batch = typename BatchOf<S.codes, S, C>::Type;
  extern __shared__ __align__(16) float sums[];  // [warp][register][lane]
  wait_for_dependencies();
  launch_dependents();
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t n0 = int64_t{blockIdx.x} * kProductColumns;
  const int64_t m0 = int64_t{blockIdx.z} * S.tiles * 16;
  constexpr int64_t kBatch = int64_t{S.depth()} * C.unroll;
  const int64_t batches = (p.w.depth + kBatch - 1) / kBatch;
  const int64_t each = (batches + C.split * C.warps - 1) / (C.split * C.warps);
  const int64_t begin = (int64_t{blockIdx.y} * C.warps + warp) * each * kBatch;
  const int64_t end = begin + each * kBatch < p.w.depth ? begin + each * kBatch : p.w.depth;
  float d[S.tiles][kTiles][4] = {};
  if constexpr (C.ahead) {
    // The next batch is in flight while this one is multiplied.
    Batch now, next;
    if (begin < end) now.load(p, n0, m0, begin, end, lane / 4, lane % 4);
    for (int64_t k = begin; k < end; k += kBatch) {
      if (k + kBatch < end) next.load(p, n0, m0, k + kBatch, end, lane / 4, lane % 4);
      now.multiply(d, p.w);
      now = next;
    }
  } else {
    for (int64_t k = begin; k < end; k += kBatch) {
      Batch batch;
      batch.load(p, n0, m0, k, end, lane / 4, lane % 4);
      batch.multiply(d, p.w);
    }
  }
#pragma unroll
  for (int r = 0; r < S.sums(); ++r)
    sums[(warp * S.sums() + r) * 32 + lane] = d[r / 4 / kTiles][r / 4 % kTiles][r % 4];
  __syncthreads();
  for (int e = static_cast<int>(threadIdx.x); e < S.sums() * 32; e += C.threads()) {
    const int from = e % 32, r = e / 32 % 4, tile = e / 128 % kTiles;
    const int64_t m = m0 + e / 128 / kTiles * 16 + from / 4 + r / 2 * 8;
    const int64_t n = n0 + Batch::column_of(tile, from % 4 * 2 + r % 2);
    if (m >= p.m || n >= p.w.columns) continue;
    float sum = 0;
#pragma unroll
    for (int w = 0; w < C.warps; ++w) sum += sums[w * S.sums() * 32 + e];
    if constexpr (C.split > 1)
      p.partial[(int64_t{blockIdx.y} * p.m + m) * p.w.columns + n] = sum;
    else
      store_y<S.type>(p.w, m, n, finished<S>(p, n, sum));
  }
}

}  // namespace dlblas::w4
