// Weights in panels (job.hpp says where an element is), multiplied as f32. In: panels of any type.
// Out: those of f32 are read where they lie, 16 bits are widened, a block at a time.
// Numerics: sums in the same order as FloatCore's, and so the same bits.
// Compiled once per instruction set. Read next: mainloop.hpp.
#pragma once

#include "cpu/gemm/mainloop.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

/// A tile of kPanelColumns or a part of them.
template <int M, int V, int kUnroll>
constexpr TileCode panel_code() {
  constexpr int kAhead = kWidth == 4 ? 0 : kPanelAhead;
  return {{M, V * kWidth}, tile_kernel<M, V, kUnroll, kPanelColumns, kAhead>};
}

// Tiles of packed weights: also for so few rows that reading them is all that takes time.
#if defined(__AVX512F__)
constexpr TileCode kPanelTiles[] = {panel_code<4, 2, 2>(), panel_code<8, 2, 2>(),
                                    panel_code<12, 2, 2>(), panel_code<14, 2, 2>()};
#elif defined(__AVX2__)
constexpr TileCode kPanelTiles[] = {panel_code<2, 4, 1>(), panel_code<4, 2, 2>(),
                                    panel_code<6, 2, 2>()};
#else
constexpr TileCode kPanelTiles[] = {panel_code<2, 4, 1>(), panel_code<4, 2, 1>()};
#endif
constexpr int kNumPanelTiles = static_cast<int>(sizeof kPanelTiles / sizeof kPanelTiles[0]);
constexpr TileShapes kPanelShapes(kPanelTiles);

/// Rows [depth][kPanelColumns] as f32.
template <DType E>
DLBLAS_INLINE void widen_rows(const char* from, int64_t depth, float* to) {
  for (int64_t i = 0; i < depth * kPanelColumns; i += kWidth)
    store<DType::kF32>(to + i, load<E>(at<E>(from, i)));
}

/// Pairs of bf16, [pair][kPanelColumns][2]: a word has the even depth in its lower half.
DLBLAS_INLINE void widen_pairs(const char* from, int64_t pairs, float* to) {
  using Words = uint32_t __attribute__((vector_size(sizeof(Vec))));
  for (int64_t p = 0; p < pairs; ++p, to += 2 * kPanelColumns) {
    DLBLAS_UNROLL
    for (int v = 0; v < kPanelColumns; v += kWidth, from += sizeof(Words)) {
      Words words;
      __builtin_memcpy(&words, from, sizeof words);
      store<DType::kF32>(to + v, (Vec)(words << 16));
      store<DType::kF32>(to + kPanelColumns + v, (Vec)(words & 0xffff0000u));
    }
  }
}

struct PanelFloatCore : FloatCore {
  static constexpr int kNumTiles = kNumPanelTiles, kPanel = kPanelColumns;
  static constexpr const GemmTile* kShapes = kPanelShapes.of;

  static bool reads_panels(DType type, int64_t /*depth*/) { return type == DType::kF32; }
  static void unpack(const GemmJob& p, const GemmBlock& block, float* to) {
    const int64_t depth = block.k1 - block.k0;
    for (int64_t j = block.j0; j < block.j1; j += kPanelColumns, to += depth * kPanelColumns) {
      const int64_t first = panel_start(p.n, p.k, j, block.k0);
      if (p.b[0].type == DType::kF16) {
        widen_rows<DType::kF16>(at<DType::kF16>(p.panels, first), depth, to);
        continue;
      }
      const int64_t whole = depth / kPanelChunk * kPanelChunk * kPanelColumns;
      const char* const from = at<DType::kBF16>(p.panels, first);
      widen_pairs(from, whole / kPanelColumns / 2, to);
      widen_rows<DType::kBF16>(at<DType::kBF16>(from, whole), depth % kPanelChunk, to + whole);
    }
  }
  static void run(const BlockWork& w, bool in_place, TileArgs& t) {
    run_floats(kPanelTiles[w.c.tile].run, w, in_place, t);
  }
};

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
