// Weights in panels (job.hpp says where an element is), multiplied as f32. In: panels of any type.
// Out: sums; panels are read where they lie, 16 bits are widened on the way to the multiplier.
// Numerics: sums in the same order as FloatCore's, and so the same bits.
// Compiled once per instruction set. Read next: mainloop.hpp.
#pragma once

#include "cpu/gemm/mainloop.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

using PanelF32 = TileColumns<DType::kF32, kPanelColumns, kWidth == 4 ? 0 : kPanelAhead>;
using PanelF16 = TileColumns<DType::kF16, kPanelColumns, kWidth == 4 ? 0 : kPanelAhead>;
using PanelBF16 = TileColumns<DType::kBF16, kPanelColumns, kWidth == 4 ? 0 : kPanelAhead>;

/// A tile of kPanelColumns or a part of them, for each type.
struct PanelTileCode {
  GemmTile shape;
  TileFn f32, f16, bf16;
};
template <int M, int V, int kUnroll>
constexpr PanelTileCode panel_code() {
  return {{M, V * kWidth},
          tile_kernel<M, V, kUnroll, PanelF32>,
          tile_kernel<M, V, kUnroll, PanelF16>,
          tile_kernel<M, V, kUnroll, PanelBF16>};
}

// Also for so few rows that reading a weight is all that takes time: f32 1×14336×4096, one thread
// of a Zen 5, November 2026: 7.0 ms with 2 rows, 7.8 with 4.
#if defined(__AVX512F__)
constexpr PanelTileCode kPanelTiles[] = {panel_code<2, 2, 2>(), panel_code<4, 2, 2>(),
                                         panel_code<8, 2, 2>(), panel_code<12, 2, 2>(),
                                         panel_code<14, 2, 2>()};
#elif defined(__AVX2__)
constexpr PanelTileCode kPanelTiles[] = {panel_code<2, 4, 1>(), panel_code<4, 2, 2>(),
                                         panel_code<6, 2, 2>()};
#else
constexpr PanelTileCode kPanelTiles[] = {panel_code<2, 4, 1>(), panel_code<4, 2, 1>()};
#endif
constexpr int kNumPanelTiles = static_cast<int>(sizeof kPanelTiles / sizeof kPanelTiles[0]);
constexpr TileShapes<kNumPanelTiles> kPanelShapes(kPanelTiles);

struct PanelFloatCore : FloatCore {
  static constexpr int kNumTiles = kNumPanelTiles, kPanel = kPanelColumns;
  static constexpr const GemmTile* kShapes = kPanelShapes.of;

  static bool reads_panels(DType type, int64_t depth) {
    return !has_panel_pairs(type) || depth % kPanelChunk == 0;
  }
  /// Pairs, then a chunk that is not whole, as f32.
  static void unpack(const GemmJob& p, const GemmBlock& block, float* to) {
    const int64_t depth = block.k1 - block.k0, whole = depth / kPanelChunk * kPanelChunk;
    for (int64_t j = block.j0; j < block.j1; j += kPanelColumns) {
      const char* from = at<DType::kBF16>(p.panels, panel_start(p.n, p.k, j, block.k0));
      for (int64_t k = 0; k < depth; ++k, to += kPanelColumns) {
        for (int v = 0; v < kPanelColumns / kWidth; ++v) {
          const Vec row = k < whole ? load_columns_of<PanelBF16>(from, v, k % 2)
                                    : load<DType::kBF16>(at<DType::kBF16>(from, v * kWidth));
          store<DType::kF32>(to + v * kWidth, row);
        }
        if (k >= whole)
          from += PanelF16::kRow;
        else if (k % 2 == 1)
          from += PanelBF16::kRow;
      }
    }
  }
  static void run(const BlockWork& w, bool in_place, TileArgs& t) {
    const PanelTileCode& code = kPanelTiles[w.c.tile];
    const DType type = w.panels.type;
    run_floats(type == DType::kF32   ? code.f32
               : type == DType::kF16 ? code.f16
                                     : code.bf16,
               (type == DType::kF32 ? 4 : 2) * w.panel, w, in_place, t);
  }
};

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
