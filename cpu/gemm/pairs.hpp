// Products on units that multiply a few terms of K per lane: bf16 in pairs, by AMX tiles or by
// AVX512_BF16; 8-bit codes (codes.hpp).
// In: strided elements. Out: f32 sums, i32 for i8. A core of cpu/gemm/mainloop.hpp; the translation
// unit's flags say which: one with -mamx-bf16 has tiles.
//
//   packed, for each 64 bytes of terms of K:   a: [row][64 bytes]   b: [group][column][4 bytes]
//
// Numerics: products are exact, sums f32, rounded to nearest even; denormal inputs and sums count
// as zero. AMX sums the even and the odd terms of 32, adds the two, then the previous sum
// (kTileSums). AVX512_BF16 adds pairs one after the other, in chains like FloatCore's (kLongSums).
// Compiled only for x86 with AVX512_BF16. Read next: codes.hpp, mainloop.hpp.
#pragma once

#include "cpu/gemm/mainloop.hpp"
#if defined(__AMX_TILE__)
#include "cpu/amx.hpp"
#endif

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

/// Bytes of a chunk: the terms of K that are packed together. One lane has a group of them.
constexpr int kChunkBytes = 64, kGroupBytes = kChunkBytes / kWidth;
using Chunk = __m512i;  // of a row, or 16 lanes of a group each

/// bf16 elements, multiplied as they are. What a core knows about its operands:
struct Bf16Terms {
  using Element = uint16_t;                      // in memory
  static constexpr int kGroup = 2, kTerms = 32;  // terms of a group and of a chunk
  static constexpr bool kAsStored = true;        // packed terms are elements
  static constexpr bool kIntegers = false;       // their sums are i32

  /// Contiguous terms: the first n count, zeros above.
  static Chunk load(const Element* from, int64_t n) {
    if (n >= kTerms) return _mm512_loadu_si512(from);
    return n > 0 ? _mm512_maskz_loadu_epi16(~uint32_t{0} >> (kTerms - n), from)
                 : _mm512_setzero_si512();
  }
  /// One group for each of 16 contiguous lanes, `lanes` of which count; of a group's terms, which
  /// are `depth` elements apart, the first `n` count.
  static Chunk load_lanes(const Element* from, int64_t depth, __mmask16 lanes, int64_t n) {
    const auto term = [&](int64_t k) __attribute__((always_inline)) {
      return _mm512_cvtepu16_epi32(
          _mm256_maskz_loadu_epi16(k < n ? lanes : static_cast<__mmask16>(0), from + k * depth));
    };
    return _mm512_or_si512(term(0), _mm512_slli_epi32(term(1), 16));
  }
  /// Like load_lanes, for 64 lanes.
  static void load_many(const Element* from, int64_t depth, __mmask64 lanes, int64_t n,
                        Chunk (&r)[4]) {
    // Element i of the even row, then of the odd one: 0, 32, 1, 33, …
    const Chunk i = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const Chunk first =
        _mm512_add_epi32(_mm512_or_si512(i, _mm512_slli_epi32(i, 16)), _mm512_set1_epi32(32 << 16));
    const Chunk second = _mm512_add_epi32(first, _mm512_set1_epi32(16 << 16 | 16));
    DLBLAS_UNROLL
    for (int h = 0; h < 2; ++h) {
      const auto some = static_cast<__mmask32>(lanes >> 32 * h);
      const Chunk even = _mm512_maskz_loadu_epi16(n > 0 ? some : 0, from + 32 * h);
      const Chunk odd = _mm512_maskz_loadu_epi16(n > 1 ? some : 0, from + depth + 32 * h);
      r[2 * h] = _mm512_permutex2var_epi16(even, first, odd);
      r[2 * h + 1] = _mm512_permutex2var_epi16(even, second, odd);
    }
  }
};

/// Transposes 16 rows of groups into 16 columns of them, and back.
DLBLAS_INLINE void transpose_groups(Chunk (&r)[kWidth]) {
  Vec v[kWidth];
  DLBLAS_UNROLL
  for (int i = 0; i < kWidth; ++i) v[i] = _mm512_castsi512_ps(r[i]);
  transpose(v);
  DLBLAS_UNROLL
  for (int i = 0; i < kWidth; ++i) r[i] = _mm512_castps_si512(v[i]);
}

/// One group of 16 lanes at any strides, like Terms::load_lanes.
template <typename Terms>
DLBLAS_OUTLINE Chunk load_strided(const PackSource& s, const typename Terms::Element* from,
                                  int64_t lanes, int64_t n) {
  typename Terms::Element group[Terms::kTerms] = {};
  for (int64_t l = 0; l < lanes; ++l)
    for (int64_t k = 0; k < smaller(n, Terms::kGroup); ++k)
      group[l * Terms::kGroup + k] = from[l * s.lane + k * s.depth];
  return Terms::load(group, Terms::kTerms);
}

/// 16 lanes of which n count, a chunk of depths of which `depths` count: r[i] is lane i, or with
/// `by_groups` group i of all lanes. Prefetches the lanes that are `ahead` further on.
template <typename Terms>
DLBLAS_INLINE void load_block(const PackSource& s, const typename Terms::Element* from, int64_t n,
                              int64_t depths, bool by_groups, int64_t ahead, Chunk (&r)[kWidth]) {
  if (s.depth == 1) {
    DLBLAS_UNROLL
    for (int i = 0; i < kWidth; ++i) {
      const auto* const at = from + i * s.lane;
      r[i] = i < n ? Terms::load(at, depths) : _mm512_setzero_si512();
      prefetch(at + ahead * s.lane);
    }
    if (by_groups) transpose_groups(r);
    return;
  }
  const int64_t count = n > 0 ? smaller(n, kWidth) : 0;
  if (s.lane == 1) {
    DLBLAS_UNROLL
    for (int i = 0; i < kWidth; ++i)
      r[i] =
          Terms::load_lanes(from + i * Terms::kGroup * s.depth, s.depth,
                            static_cast<__mmask16>((1u << count) - 1u), depths - i * Terms::kGroup);
  } else {
    for (int i = 0; i < kWidth; ++i)
      r[i] = load_strided<Terms>(s, from + i * Terms::kGroup * s.depth, count,
                                 depths - i * Terms::kGroup);
  }
  if (!by_groups) transpose_groups(r);
}

/// Rows [p, p + width) of a, contiguous along K, one after the other; prefetches the row after
/// next. Granite Rapids, i8 512×4096×4096: 9.4 ms, 9.9 by squares of 16 rows, November 2026.
template <typename Terms>
DLBLAS_INLINE void pack_rows(const PackSource& s, int64_t p, int64_t lanes, int64_t depth,
                             int width, float* to) {
  constexpr int64_t kFloats = kChunkBytes / 4;
  const auto* const data = static_cast<const typename Terms::Element*>(s.data);
  for (int i = 0; i < width; ++i) {
    const auto* const from = data + (p + i) * s.lane;
    for (int64_t k = 0; k < depth; k += Terms::kTerms) {
      const Chunk row = p + i < lanes ? Terms::load(from + k, depth - k) : _mm512_setzero_si512();
      prefetch(from + k + 2 * s.lane);
      _mm512_storeu_si512(to + (k / Terms::kTerms * width + i) * kFloats, row);
    }
  }
}

/// Packs a chunk of depths of b, whose rows are contiguous, into panels of `width` with `chunks`:
/// 64 lanes at a time, one line of each row.
template <typename Terms>
DLBLAS_INLINE void pack_lines(const PackSource& s, int64_t lanes, int64_t depth, int width,
                              int64_t chunk, int64_t chunks, float* to) {
  constexpr int64_t kFloats = kChunkBytes / 4, kLanes = 64, kAhead = 8;
  const auto* const data = static_cast<const typename Terms::Element*>(s.data);
  for (int64_t p = 0; p < lanes; p += kLanes) {
    const __mmask64 count = ~uint64_t{0} >> (kLanes - smaller(kLanes, lanes - p));
    float* to_lane[kLanes / kWidth];
    int64_t groups = 0;
    for (int64_t lane = p; lane < p + kLanes; lane += kWidth) {
      const int64_t panel = lane / width * width;
      if (panel >= lanes) break;
      to_lane[groups++] =
          to + panel * (chunks + 1) * kFloats + chunk * kWidth * width + (lane - panel);
    }
    for (int64_t i = 0; i < kWidth; ++i) {
      const int64_t k = chunk * Terms::kTerms + i * Terms::kGroup;
      Chunk r[kLanes / kWidth];
      Terms::load_many(data + p + k * s.depth, s.depth, count, depth - k, r);
      for (int64_t d = kAhead; d < kAhead + Terms::kGroup; ++d)
        prefetch(data + p + (k + d) * s.depth);
      DLBLAS_UNROLL
      for (int g = 0; g < kLanes / kWidth; ++g)
        if (g < groups) _mm512_storeu_si512(to_lane[g] + i * width, r[g]);
    }
  }
}

/// Packs `lanes` × `depth` elements into panels of `width`, zeros past either end.
template <typename Terms>
DLBLAS_ONCE void pack_chunks(const PackSource& s, int64_t lanes, int64_t depth, int width,
                             bool of_b, float* to) {
  constexpr int kFloats = kChunkBytes / 4;
  const int64_t chunks = (depth + Terms::kTerms - 1) / Terms::kTerms;
  const auto* const data = static_cast<const typename Terms::Element*>(s.data);
  const auto pack_chunk = [&](int64_t p, int64_t c) {
    float* const panel = to + p * (chunks + 1) * kFloats + c * width * kFloats;
    for (int g = 0; g < width; g += kWidth) {
      Chunk r[kWidth];
      const auto* const from = data + (p + g) * s.lane + c * Terms::kTerms * s.depth;
      load_block<Terms>(s, from, lanes - p - g, depth - c * Terms::kTerms, of_b, width, r);
      const int rows = of_b || width - g > kWidth ? kWidth : width - g;
      // b: the panel's columns of group i; a: row g + i.
      float* const at = of_b ? panel + g : panel + g * kFloats;
      for (int i = 0; i < rows; ++i) _mm512_storeu_si512(at + i * (of_b ? width : kFloats), r[i]);
    }
  };
  // Along the contiguous dimension: few read streams.
  const bool along_k = s.depth == 1;
  if (along_k && !of_b) {
    for (int64_t p = 0; p < lanes; p += width)
      pack_rows<Terms>(s, p, lanes, depth, width, to + p * (chunks + 1) * kFloats);
    return;
  }
  if constexpr (requires { &Terms::load_many; }) {
    if (of_b && s.lane == 1) {
      for (int64_t c = 0; c < chunks; ++c) pack_lines<Terms>(s, lanes, depth, width, c, chunks, to);
      return;
    }
  }
  const int64_t panels = (lanes + width - 1) / width, inner = along_k ? chunks : panels;
  for (int64_t i = 0; i < panels * chunks; ++i)
    pack_chunk((along_k ? i / inner : i % inner) * width, along_k ? i % inner : i / inner);
}

#if defined(__AMX_BF16__)

/// What one register tile reads and writes over a block's depth; pitches in bytes.
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

/// kSum += a · b.
template <typename Terms, int kSum, int kA, int kB>
DLBLAS_INLINE void multiply_terms() {
  if constexpr (Terms::kIntegers)
    multiply_i8<kSum, kA, kB>();
  else
    multiply_bf16<kSum, kA, kB>();
}

/// 32 × 32: each operand's tile is used twice.
template <typename T>
void multiply_square(const PairArgs& t) {
  begin_tile<0>(t, 0, 0), begin_tile<1>(t, 0, kTileRows);
  begin_tile<2>(t, kTileRows, 0), begin_tile<3>(t, kTileRows, kTileRows);
  const char *a = t.a, *b = t.b;
  for (int64_t k = 0; k < t.chunks; ++k) {
    load_tile<4>(a, t.a_pitch);
    load_tile<6>(b, 2 * kChunkBytes);
    multiply_terms<T, 0, 4, 6>();
    load_tile<7>(b + kChunkBytes, 2 * kChunkBytes);
    multiply_terms<T, 1, 4, 7>();
    load_tile<5>(a + kTileRows * t.a_pitch, t.a_pitch);
    multiply_terms<T, 2, 5, 6>();
    multiply_terms<T, 3, 5, 7>();
    a += t.a_chunk, b += 2 * kTileBytes;
  }
  end_tile<0>(t, 0, 0), end_tile<1>(t, 0, kTileRows);
  end_tile<2>(t, kTileRows, 0), end_tile<3>(t, kTileRows, kTileRows);
}

/// 16 × 64, for rows that would not fill two tiles.
template <typename T>
void multiply_flat(const PairArgs& t) {
  begin_tile<0>(t, 0, 0), begin_tile<1>(t, 0, kTileRows);
  begin_tile<2>(t, 0, 2 * kTileRows), begin_tile<3>(t, 0, 3 * kTileRows);
  constexpr int64_t kPitch = 4 * kChunkBytes;
  const char *a = t.a, *b = t.b;
  for (int64_t k = 0; k < t.chunks; ++k) {
    load_tile<4>(a, t.a_pitch);
    load_tile<5>(b, kPitch), load_tile<6>(b + kChunkBytes, kPitch);
    multiply_terms<T, 0, 4, 5>(), multiply_terms<T, 1, 4, 6>();
    load_tile<5>(b + 2 * kChunkBytes, kPitch), load_tile<6>(b + 3 * kChunkBytes, kPitch);
    multiply_terms<T, 2, 4, 5>(), multiply_terms<T, 3, 4, 6>();
    a += t.a_chunk, b += 4 * kTileBytes;
  }
  end_tile<0>(t, 0, 0), end_tile<1>(t, 0, kTileRows);
  end_tile<2>(t, 0, 2 * kTileRows), end_tile<3>(t, 0, 3 * kTileRows);
}

/// 64 × 16, for columns that would not fill two tiles.
template <typename T>
void multiply_tall(const PairArgs& t) {
  begin_tile<0>(t, 0, 0), begin_tile<1>(t, kTileRows, 0);
  begin_tile<2>(t, 2 * kTileRows, 0), begin_tile<3>(t, 3 * kTileRows, 0);
  const int64_t rows = kTileRows * t.a_pitch;
  const char *a = t.a, *b = t.b;
  for (int64_t k = 0; k < t.chunks; ++k) {
    load_tile<4>(b, kChunkBytes);
    load_tile<5>(a, t.a_pitch), load_tile<6>(a + rows, t.a_pitch);
    multiply_terms<T, 0, 5, 4>(), multiply_terms<T, 1, 6, 4>();
    load_tile<5>(a + 2 * rows, t.a_pitch), load_tile<6>(a + 3 * rows, t.a_pitch);
    multiply_terms<T, 2, 5, 4>(), multiply_terms<T, 3, 6, 4>();
    a += t.a_chunk, b += kTileBytes;
  }
  end_tile<0>(t, 0, 0), end_tile<1>(t, kTileRows, 0);
  end_tile<2>(t, 2 * kTileRows, 0), end_tile<3>(t, 3 * kTileRows, 0);
}

constexpr GemmTile kPairShapes[] = {{32, 32}, {16, 64}, {64, 16}};
constexpr GemmTile kPanelPairShapes[] = {{32, 32}};  // the first of those

using PairScope = Tiles;

template <typename Terms>
DLBLAS_ONCE void run_pairs(const BlockWork& w, bool in_place, const TileArgs& t) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(typename Terms::Element));
  PairArgs p{};
  p.chunks = (t.depth + Terms::kTerms - 1) / Terms::kTerms;
  p.a = reinterpret_cast<const char*>(t.a), p.b = reinterpret_cast<const char*>(t.b);
  p.a_pitch = in_place ? kBytes * t.a_row : kChunkBytes;
  p.a_chunk = in_place ? kChunkBytes : int64_t{w.tile.m} * kChunkBytes;
  p.before = t.runs, p.before_pitch = t.runs_row * 4;
  p.out = t.out, p.out_pitch = t.out_row * 4;
  if (w.c.tile == 0) return multiply_square<Terms>(p);
  if (w.c.tile == 1) return multiply_flat<Terms>(p);
  multiply_tall<Terms>(p);
}

#else  // AVX512_BF16

/// One pair of terms for a tile: V vectors of b, each used by all M rows.
/// Fetches b kAhead bytes ahead.
template <int M, int V, int kAhead>
DLBLAS_INLINE void pair_step(const char* a, int64_t a_pitch, const char* b, Vec (&sum)[M][V]) {
  Chunk columns[V];
  DLBLAS_UNROLL
  for (int v = 0; v < V; ++v) {
    columns[v] = _mm512_loadu_si512(b + v * kChunkBytes);
    if constexpr (kAhead > 0) prefetch(b + kAhead + v * kChunkBytes);
  }
  DLBLAS_UNROLL
  for (int i = 0; i < M; ++i) {
    int32_t pair;
    __builtin_memcpy(&pair, a + i * a_pitch, sizeof pair);
    const Chunk row = _mm512_set1_epi32(pair);
    DLBLAS_UNROLL
    for (int v = 0; v < V; ++v)
      sum[i][v] = _mm512_dpbf16_ps(sum[i][v], (__m512bh)row, (__m512bh)columns[v]);
  }
}

/// Like tile_kernel; a_row and a_depth are bytes between rows and between groups of 32 terms.
template <int M, int V, int kAhead = 0>
void pair_kernel(const TileArgs& t) {
  Vec sum[M][V];
  DLBLAS_UNROLL
  for (int i = 0; i < M; ++i) {
    DLBLAS_UNROLL
    for (int v = 0; v < V; ++v) sum[i][v] = zero();
  }
  const auto *a = reinterpret_cast<const char*>(t.a), *b = reinterpret_cast<const char*>(t.b);
  for (int64_t k = 0; k < t.depth; k += Bf16Terms::kTerms) {
    for (int pair = 0; pair < kWidth; ++pair, b += V * kChunkBytes)
      pair_step<M, V, kAhead>(a + 4 * pair, t.a_row, b, sum);
    a += t.a_depth;
  }
  if (t.chains) add_tile<M, V>(t.chains, V * kWidth, sum);
  if (t.runs) add_tile<M, V>(t.runs, t.runs_row, sum);
  store_tile<M, V>(t.out, t.out_row, sum);
}

constexpr GemmTile kPairShapes[] = {{6, 64}, {12, 32}, {14, 32}};
constexpr TileFn kPairTiles[] = {pair_kernel<6, 4>, pair_kernel<12, 2>, pair_kernel<14, 2>};
// Of packed weights: also for so few rows that reading them is all that takes time.
constexpr GemmTile kPanelPairShapes[] = {{4, 32}, {8, 32}, {12, 32}, {14, 32}};
constexpr TileFn kPanelPairTiles[] = {
    pair_kernel<4, 2, kPanelAhead>, pair_kernel<8, 2, kPanelAhead>, pair_kernel<12, 2, kPanelAhead>,
    pair_kernel<14, 2, kPanelAhead>};

struct PairScope {};

template <typename Terms>
DLBLAS_ONCE void run_pairs(const BlockWork& w, bool in_place, TileArgs& t) {
  static_assert(!Terms::kIntegers);
  t.a_row = in_place ? 2 * t.a_row : kChunkBytes;
  t.a_depth = in_place ? kChunkBytes : int64_t{w.tile.m} * kChunkBytes;
  run_tile(w.core.panel > 0 ? kPanelPairTiles[w.c.tile] : kPairTiles[w.c.tile], w.tile, w.p.sums,
           t.depth, in_place ? 1 : w.tile.m, 4 * w.panel, 2, t);
}

#endif

template <typename Terms>
struct PairCore {
  static constexpr int kNumTiles = sizeof kPairShapes / sizeof kPairShapes[0];
  static constexpr const GemmTile* kShapes = kPairShapes;
  // A step takes 16 KiB of each operand's tile: both stay in 48 KiB, and so does what follows.
  static constexpr int kDepths = Terms::kTerms, kDepthsPerFloat = Terms::kGroup,
                       kPad = Terms::kTerms, kStep = 8 * Terms::kTerms,
                       kPanel = 0;  // see GemmBlocks
  using Scope = PairScope;

  static void pack(DType /*of the terms*/, const PackSource& s, int64_t lanes, int64_t depth,
                   int width, bool of_b, float* to) {
    pack_chunks<Terms>(s, lanes, depth, width, of_b, to);
  }
  /// Otherwise terms past the depth would be read.
  static bool reads_in_place(const GemmJob& p, GemmTile /*tile*/, int64_t depth) {
    return Terms::kAsStored && p.a.col == 1 && depth % Terms::kTerms == 0;
  }
  static void run(const BlockWork& w, bool in_place, TileArgs& t) {
    run_pairs<Terms>(w, in_place, t);
  }
  static void end_span(float* tile, GemmTile shape, float* sums, const GemmPartial& s, bool first,
                       bool last) {
    add_span(tile, shape, sums, s, first, last);
  }
};

/// Weights in panels, which already have this core's form but where K ends within a chunk.
struct PanelPairCore : PairCore<Bf16Terms> {
  static constexpr int kNumTiles = sizeof kPanelPairShapes / sizeof kPanelPairShapes[0];
  static constexpr const GemmTile* kShapes = kPanelPairShapes;
  static constexpr int kPanel = kPanelColumns;

  static bool reads_panels(DType /*type*/, int64_t depth) { return depth % kPanelChunk == 0; }
  static void unpack(const GemmJob& p, const GemmBlock& block, float* to) {
    const int64_t depth = block.k1 - block.k0, rest = depth % kPanelChunk, whole = depth - rest;
    constexpr int64_t kColumns = kPanelColumns, kFloats = kColumns / kDepthsPerFloat;
    for (int64_t j = block.j0; j < block.j1; j += kColumns) {
      const char* const from = at<DType::kBF16>(p.panels, panel_start(p.n, p.k, j, block.k0));
      __builtin_memcpy(to, from, static_cast<size_t>(whole * kFloats) * sizeof(float));
      const PackSource tail{at<DType::kBF16>(from, whole * kColumns), 1, kColumns};
      if (rest > 0)
        pack_chunks<Bf16Terms>(tail, kColumns, rest, kPanelColumns, true, to + whole * kFloats);
      to += (whole + (rest > 0 ? kPanelChunk : 0) + kPad) * kFloats;
    }
  }
};

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
