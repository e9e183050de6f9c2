// Products of bf16 in pairs: two terms of K a lane, multiplied by AMX tiles or by AVX512_BF16.
// In: strided bf16. Out: f32 sums. A core of cpu/gemm/mainloop.hpp; the translation unit's flags
// say which: one with -mamx-bf16 has tiles.
//
//   packed, for each 32 terms of K      a: [row][32]        b: [pair][column][2]
//
// Numerics: products are exact, sums f32, rounded to nearest even; denormal inputs and sums count
// as zero. AMX adds up the even and the odd terms of 32, then the two, then to what was before
// (kTileSums). AVX512_BF16 adds pairs one after the other, in chains as FloatCore's (kLongSums).
// Compiled for x86 with AVX512_BF16 alone.  Read next: mainloop.hpp.
#pragma once

#include "cpu/gemm/mainloop.hpp"
#if defined(__AMX_TILE__)
#include "cpu/amx.hpp"
#endif

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

/// Terms of K that are packed together, and bytes of a row of them.
constexpr int kChunk = 32, kChunkBytes = 2 * kChunk;
constexpr int kPanelPad = kChunk;
using Pairs = __m512i;  // 16 lanes of two bf16, the even term in the lower half

/// 32 terms of a row: the first n count, zeros above.
DLBLAS_INLINE Pairs load_chunk(const uint16_t* from, int64_t n) {
  if (n >= kChunk) return _mm512_loadu_si512(from);
  return n > 0 ? _mm512_maskz_loadu_epi16(~uint32_t{0} >> (kChunk - n), from)
               : _mm512_setzero_si512();
}
/// 16 rows of pairs turn into 16 columns of them, and back.
DLBLAS_INLINE void transpose_pairs(Pairs (&r)[kWidth]) {
  Vec v[kWidth];
  DLBLAS_UNROLL
  for (int i = 0; i < kWidth; ++i) v[i] = _mm512_castsi512_ps(r[i]);
  transpose(v);
  DLBLAS_UNROLL
  for (int i = 0; i < kWidth; ++i) r[i] = _mm512_castps_si512(v[i]);
}

/// 16 lanes of which n count, 32 depths of which `depths` do: r[i] is lane i, or for
/// `by_pairs` pair i of all lanes.
DLBLAS_INLINE void load_block(const PackSource& s, const uint16_t* from, int64_t n, int64_t depths,
                              bool by_pairs, Pairs (&r)[kWidth]) {
  if (s.depth == 1) {
    DLBLAS_UNROLL
    for (int i = 0; i < kWidth; ++i)
      r[i] = i < n ? load_chunk(from + i * s.lane, depths) : _mm512_setzero_si512();
    if (by_pairs) transpose_pairs(r);
    return;
  }
  const __mmask16 lanes =
      n >= kWidth ? 0xffff : static_cast<__mmask16>((1u << (n > 0 ? n : 0)) - 1u);
  DLBLAS_UNROLL
  for (int i = 0; i < kWidth; ++i) {
    const auto term = [&](int64_t k) __attribute__((always_inline)) {
      if (k >= depths) return _mm512_setzero_si512();
      const uint16_t* const at = from + k * s.depth;
      if (s.lane == 1) return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, at));
      alignas(64) uint32_t values[kWidth] = {};
      for (int64_t l = 0; l < smaller(n, kWidth); ++l) values[l] = at[l * s.lane];
      return _mm512_load_si512(values);
    };
    r[i] = _mm512_or_si512(term(2 * i), _mm512_slli_epi32(term(2 * i + 1), 16));
  }
  if (!by_pairs) transpose_pairs(r);
}

/// Packs `lanes` × `depth` elements into panels of `width`, zeros past either end.
void pack_pairs(const PackSource& s, int64_t lanes, int64_t depth, int width, bool of_b,
                float* to) {
  constexpr int kFloats = kChunk / 2;
  const int64_t chunks = (depth + kChunk - 1) / kChunk;
  const auto* const data = static_cast<const uint16_t*>(s.data);
  const auto pack_chunk = [&](int64_t p, int64_t c) {
    float* const panel = to + p * (chunks * kFloats + kPanelPad / 2) + c * width * kFloats;
    for (int g = 0; g < width; g += kWidth) {
      Pairs r[kWidth];
      const uint16_t* const from = data + (p + g) * s.lane + c * kChunk * s.depth;
      load_block(s, from, lanes - p - g, depth - c * kChunk, of_b, r);
      const int rows = of_b || width - g > kWidth ? kWidth : width - g;
      // b: the panel's columns of pair i; a: row g + i.
      float* const at = of_b ? panel + g : panel + g * kFloats;
      for (int i = 0; i < rows; ++i) _mm512_storeu_si512(at + i * (of_b ? width : kFloats), r[i]);
    }
  };
  // Along what is contiguous: few streams of reads.
  if (s.depth == 1) {
    for (int64_t p = 0; p < lanes; p += width)
      for (int64_t c = 0; c < chunks; ++c) pack_chunk(p, c);
    return;
  }
  for (int64_t c = 0; c < chunks; ++c)
    for (int64_t p = 0; p < lanes; p += width) pack_chunk(p, c);
}

#if defined(__AMX_BF16__)

/// What one register tile reads and writes, over a block's depth; pitches in bytes.
struct PairArgs {
  int64_t chunks;
  const char* a;
  int64_t a_pitch, a_chunk;
  const char* b;
  const float* before;  // null: none
  int64_t before_pitch;
  float* out;
  int64_t out_pitch;
};

/// Loads or clears the sums of one tile.
template <int kTile>
DLBLAS_INLINE void begin_tile(const PairArgs& t, int64_t row, int64_t column) {
  if (!t.before) return zero_tile<kTile>();
  const auto* const from = reinterpret_cast<const char*>(t.before + column);
  load_tile<kTile>(from + row * t.before_pitch, t.before_pitch);
}
template <int kTile>
DLBLAS_INLINE void end_tile(const PairArgs& t, int64_t row, int64_t column) {
  auto* const to = reinterpret_cast<char*>(t.out + column);
  store_tile<kTile>(to + row * t.out_pitch, t.out_pitch);
}

/// 32 × 32: each operand's tile is used twice.
void multiply_square(const PairArgs& t) {
  begin_tile<0>(t, 0, 0), begin_tile<1>(t, 0, kTileRows);
  begin_tile<2>(t, kTileRows, 0), begin_tile<3>(t, kTileRows, kTileRows);
  const char *a = t.a, *b = t.b;
  for (int64_t k = 0; k < t.chunks; ++k) {
    load_tile<4>(a, t.a_pitch);
    load_tile<6>(b, 2 * kChunkBytes);
    multiply_bf16<0, 4, 6>();
    load_tile<7>(b + kChunkBytes, 2 * kChunkBytes);
    multiply_bf16<1, 4, 7>();
    load_tile<5>(a + kTileRows * t.a_pitch, t.a_pitch);
    multiply_bf16<2, 5, 6>();
    multiply_bf16<3, 5, 7>();
    a += t.a_chunk, b += 2 * kTileBytes;
  }
  end_tile<0>(t, 0, 0), end_tile<1>(t, 0, kTileRows);
  end_tile<2>(t, kTileRows, 0), end_tile<3>(t, kTileRows, kTileRows);
}

/// 16 × 64, for rows that would not fill two tiles.
void multiply_flat(const PairArgs& t) {
  begin_tile<0>(t, 0, 0), begin_tile<1>(t, 0, kTileRows);
  begin_tile<2>(t, 0, 2 * kTileRows), begin_tile<3>(t, 0, 3 * kTileRows);
  constexpr int64_t kPitch = 4 * kChunkBytes;
  const char *a = t.a, *b = t.b;
  for (int64_t k = 0; k < t.chunks; ++k) {
    load_tile<4>(a, t.a_pitch);
    load_tile<5>(b, kPitch), load_tile<6>(b + kChunkBytes, kPitch);
    multiply_bf16<0, 4, 5>(), multiply_bf16<1, 4, 6>();
    load_tile<5>(b + 2 * kChunkBytes, kPitch), load_tile<6>(b + 3 * kChunkBytes, kPitch);
    multiply_bf16<2, 4, 5>(), multiply_bf16<3, 4, 6>();
    a += t.a_chunk, b += 4 * kTileBytes;
  }
  end_tile<0>(t, 0, 0), end_tile<1>(t, 0, kTileRows);
  end_tile<2>(t, 0, 2 * kTileRows), end_tile<3>(t, 0, 3 * kTileRows);
}

constexpr GemmTile kPairShapes[] = {{32, 32}, {16, 64}};

using PairScope = Tiles;

void run_pairs(const BlockWork& w, bool in_place, const TileArgs& t) {
  PairArgs p{};
  p.chunks = (t.depth + kChunk - 1) / kChunk;
  p.a = reinterpret_cast<const char*>(t.a), p.b = reinterpret_cast<const char*>(t.b);
  p.a_pitch = in_place ? 2 * t.a_row : kChunkBytes;
  p.a_chunk = in_place ? kChunkBytes : int64_t{w.tile.m} * kChunkBytes;
  p.before = t.runs, p.before_pitch = t.runs_row * 4;
  p.out = t.out, p.out_pitch = t.out_row * 4;
  if (w.c.tile == 0) return multiply_square(p);
  multiply_flat(p);
}

#else  // AVX512_BF16

/// One pair of terms of a tile: V vectors of b, each used by all M rows.
template <int M, int V>
DLBLAS_INLINE void pair_step(const char* a, int64_t a_pitch, const char* b, Vec (&sum)[M][V]) {
  Pairs columns[V];
  DLBLAS_UNROLL
  for (int v = 0; v < V; ++v) columns[v] = _mm512_loadu_si512(b + v * kChunkBytes);
  DLBLAS_UNROLL
  for (int i = 0; i < M; ++i) {
    int32_t pair;
    __builtin_memcpy(&pair, a + i * a_pitch, sizeof pair);
    const Pairs row = _mm512_set1_epi32(pair);
    DLBLAS_UNROLL
    for (int v = 0; v < V; ++v)
      sum[i][v] = _mm512_dpbf16_ps(sum[i][v], (__m512bh)row, (__m512bh)columns[v]);
  }
}

/// As tile_kernel; a_row and a_depth are bytes from row to row and from 32 terms to the next.
template <int M, int V>
void pair_kernel(const TileArgs& t) {
  Vec sum[M][V];
  DLBLAS_UNROLL
  for (int i = 0; i < M; ++i) {
    DLBLAS_UNROLL
    for (int v = 0; v < V; ++v) sum[i][v] = zero();
  }
  const auto *a = reinterpret_cast<const char*>(t.a), *b = reinterpret_cast<const char*>(t.b);
  for (int64_t k = 0; k < t.depth; k += kChunk) {
    for (int pair = 0; pair < kChunk / 2; ++pair, b += V * kChunkBytes)
      pair_step<M, V>(a + 4 * pair, t.a_row, b, sum);
    a += t.a_depth;
  }
  if (t.chains) add_tile<M, V>(t.chains, V * kWidth, sum);
  if (t.runs) add_tile<M, V>(t.runs, t.runs_row, sum);
  store_tile<M, V>(t.out, t.out_row, sum);
}

constexpr GemmTile kPairShapes[] = {{6, 64}, {12, 32}, {14, 32}};
constexpr TileFn kPairTiles[] = {pair_kernel<6, 4>, pair_kernel<12, 2>, pair_kernel<14, 2>};

struct PairScope {};

void run_pairs(const BlockWork& w, bool in_place, TileArgs t) {
  t.a_row = in_place ? 2 * t.a_row : kChunkBytes;
  t.a_depth = in_place ? kChunkBytes : int64_t{w.tile.m} * kChunkBytes;
  run_tile(kPairTiles[w.c.tile], w.tile, w.p.sums, t.depth, in_place ? 1 : w.tile.m, 2, t);
}

#endif

struct PairCore {
  static constexpr int kNumTiles = sizeof kPairShapes / sizeof kPairShapes[0];
  static constexpr const GemmTile* kShapes = kPairShapes;
  // Of a step, 16 KiB of each operand's tile: both stay in 48 KiB, and so does what follows.
  static constexpr int kDepths = kChunk, kDepthsPerFloat = 2, kPad = kPanelPad,
                       kStep = 256;  // see GemmCode
  using Scope = PairScope;

  static void pack(DType /*bf16*/, const PackSource& s, int64_t lanes, int64_t depth, int width,
                   bool of_b, float* to) {
    pack_pairs(s, lanes, depth, width, of_b, to);
  }
  /// Terms past the depth would be read.
  static bool reads_in_place(const GemmJob& p, int64_t depth) {
    return p.a.col == 1 && depth % kChunk == 0;
  }
  static void run(const BlockWork& w, bool in_place, const TileArgs& t) {
    run_pairs(w, in_place, t);
  }
};

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
