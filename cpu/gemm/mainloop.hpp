// The blocked product of one instruction set: register tiles and the loops around them.
// In: one cache block with b packed (and a packed here, or read in place).
// Out: f32 partial sums, and at the last depth what the epilogue stores.
// The loops see a tile through its core: FloatCore below, PairCore of cpu/gemm/pairs.hpp. A core
// packs both operands, says how much room that takes, and sums one tile's products. The loops call
// it, as they call the epilogue, through a table, so that an object has them once.
// Numerics: sums begin and end where K says (GemmSumOrder), whatever the blocks are: tiles, blocks,
// splits and threads change speed, never a bit of the result.
// Flow: [launch], called by cpu/gemm/run.cpp.  Read next: blocks_avx512.cpp, epilogue.hpp,
// pack.hpp.
#pragma once

#include "cpu/gemm/carried_sum.hpp"
#include "cpu/gemm/loops.hpp"
#include "cpu/gemm/pack.hpp"

namespace dlblas::DLBLAS_ISA {
namespace {

/// What one chain of a register tile reads and writes: out = products (+ chains) (+ runs). Packed
/// operands are in their core's format, f32 or not.
struct TileArgs {
  int64_t depth;
  const float* a;
  int64_t a_row, a_depth;  // elements between rows and depths of a
  const float* b;
  const float* chains;  // the sum of the run's chains before, a whole tile; null: none
  const float* runs;    // the sum of the span's runs before; null: none
  int64_t runs_row;
  float* out;
  int64_t out_row;
  int64_t i, j;  // of the product, where the tile begins
};

/// sum += the tile at `from`.
template <int M, int V>
DLBLAS_INLINE void add_tile(const float* from, int64_t row, Vec (&sum)[M][V]) {
  DLBLAS_UNROLL
  for (int i = 0; i < M; ++i) {
    DLBLAS_UNROLL
    for (int v = 0; v < V; ++v) {
      sum[i][v] = add(load<DType::kF32>(from + i * row + v * kWidth), sum[i][v]);
    }
  }
}

template <int M, int V>
DLBLAS_INLINE void store_tile(float* to, int64_t row, const Vec (&sum)[M][V]) {
  DLBLAS_UNROLL
  for (int i = 0; i < M; ++i) {
    DLBLAS_UNROLL
    for (int v = 0; v < V; ++v) store<DType::kF32>(to + i * row + v * kWidth, sum[i][v]);
  }
}

/// Depths that b is fetched ahead; with 4 lanes, prefetches take a tenth of the time.
constexpr int kDepthsAhead = kWidth == 4 ? 0 : 8;

/// Where a tile's b lies: packed for this tile, or in panels of which it takes V vectors.
template <DType kElement, int kColumns, int kBytesAhead>
struct TileColumns {
  static constexpr DType kType = kElement;
  static constexpr int kAhead = kBytesAhead;  // that are fetched ahead; 0: none
  static constexpr bool kPairs = has_panel_pairs(kElement);
  static constexpr int kDepths = kPairs ? 2 : 1;                             // side by side
  static constexpr int kRow = kColumns * kDepths * kElementBytes<kElement>;  // bytes of those
};
template <int V>
using PackedColumns = TileColumns<DType::kF32, V * kWidth, kDepthsAhead * V * kWidth * 4>;

/// Vector `v` of b at the depth `of` those side by side.
template <typename Columns>
DLBLAS_INLINE Vec load_columns_of(const char* b, int v, int of) {
  if constexpr (Columns::kPairs) {
    using Words = uint32_t __attribute__((vector_size(sizeof(Vec))));
    Words words;
    __builtin_memcpy(&words, b + v * kWidth * 4, sizeof words);
    return of == 0 ? (Vec)(words << 16) : (Vec)(words & 0xffff0000u);
  } else {
    return load<Columns::kType>(at<Columns::kType>(b, v * kWidth));
  }
}

/// V vectors of b at each depth, each used by all M rows. An iteration takes kUnroll depths: by 1
/// to 2 % the best, except that AVX2's wide tiles spill with more than one (4x24: 120 GFLOP/s, with
/// two 85; Zen 5, November 2026).
template <int M, int V, int kUnroll, typename Columns = PackedColumns<V>>
void tile_kernel(const TileArgs& t) {
  Vec sum[M][V];
  DLBLAS_UNROLL
  for (int i = 0; i < M; ++i) {
    DLBLAS_UNROLL
    for (int v = 0; v < V; ++v) sum[i][v] = zero();
  }
  constexpr bool kPacked = M > kInPlaceRows;
  const float* a = t.a;
  const auto* b = reinterpret_cast<const char*>(t.b);
  const int64_t a_row = kPacked ? 1 : t.a_row, a_depth = kPacked ? M : t.a_depth;
  const auto step = [&](int of) __attribute__((always_inline)) {
    Vec row[V];
    DLBLAS_UNROLL
    for (int v = 0; v < V; ++v) {
      row[v] = load_columns_of<Columns>(b, v, of);
      if constexpr (Columns::kAhead > 0)
        if (of == 0)
          prefetch(b + Columns::kAhead +
                   v * (Columns::kPairs ? 4 : kElementBytes<Columns::kType>)*kWidth);
    }
    DLBLAS_UNROLL
    for (int i = 0; i < M; ++i) {
      float element;  // by memcpy: an f32 a read in place may be aligned to nothing
      __builtin_memcpy(&element, a + i * a_row, sizeof element);
      const Vec x = broadcast(element);
      DLBLAS_UNROLL
      for (int v = 0; v < V; ++v) sum[i][v] = fma(x, row[v], sum[i][v]);
    }
    a += a_depth;
  };
  int64_t k = t.depth;
  constexpr int kStep = kUnroll > Columns::kDepths ? kUnroll : Columns::kDepths;
  for (; k >= kStep; k -= kStep) {
    DLBLAS_UNROLL
    for (int u = 0; u < kStep; ++u) {
      step(u % Columns::kDepths);
      if (u % Columns::kDepths == Columns::kDepths - 1) b += Columns::kRow;
    }
  }
  if constexpr (kStep > Columns::kDepths) {
    for (; k > 0; --k) step(0), b += Columns::kRow;
  }
  if (t.chains) add_tile<M, V>(t.chains, V * kWidth, sum);
  if (t.runs) add_tile<M, V>(t.runs, t.runs_row, sum);
  store_tile<M, V>(t.out, t.out_row, sum);
}

using TileFn = void (*)(const TileArgs&);

struct TileCode {
  GemmTile shape;
  TileFn run;
};
template <int M, int V, int kUnroll>
constexpr TileCode tile_code() {
  return {{M, V * kWidth}, tile_kernel<M, V, kUnroll>};
}

#if defined(__AVX512F__)  // 32 registers
constexpr TileCode kTiles[] = {tile_code<6, 4, 2>(), tile_code<8, 3, 2>(), tile_code<12, 2, 2>(),
                               tile_code<14, 2, 2>(), tile_code<24, 1, 2>()};
#elif defined(__AVX2__)  // 16 registers
constexpr TileCode kTiles[] = {tile_code<3, 4, 1>(), tile_code<4, 3, 1>(), tile_code<6, 2, 2>(),
                               tile_code<12, 1, 2>()};
#else
constexpr TileCode kTiles[] = {tile_code<3, 3, 4>(), tile_code<4, 2, 1>(), tile_code<6, 1, 2>()};
#endif
constexpr int kNumTiles = static_cast<int>(sizeof kTiles / sizeof kTiles[0]);
constexpr int kMaxTileFloats = 24 * 64;
/// Room for a tile's sums: integers take two planes of 1024, and not a power of two.
constexpr int kTileRoom = 2 * 1024 + 64;

/// The tiles, as host code sees them.
template <int kCount>
struct TileShapes {
  GemmTile of[kCount];
  template <typename Code>
  constexpr explicit TileShapes(const Code (&tiles)[kCount]) : of{} {
    for (int i = 0; i < kCount; ++i) of[i] = tiles[i].shape;
  }
};
constexpr TileShapes<kNumTiles> kTileShapes(kTiles);

struct BlockWork;

/// A core, as the loops see it; see FloatCore and GemmBlocks.
struct CoreCode {
  const GemmTile* shapes;
  int depths, depths_per_float, pad, step, panel;
  void (*pack)(DType, const PackSource&, int64_t lanes, int64_t depth, int width, bool of_b,
               float* to);
  bool (*reads_in_place)(const GemmJob&, GemmTile, int64_t depth);
  void (*run)(const BlockWork&, bool in_place, TileArgs&);  // may change them
  void (*end_span)(float* tile, GemmTile, float* sums, const GemmPartial&, bool first, bool last);
};

/// The work on one cache block: what its tiles have in common.
struct BlockWork {
  const CoreCode& core;
  const GemmJob& p;
  const CpuGemmConfig& c;
  const GemmBlock& block;
  const GemmPartial& partial;
  const GemmPanels& panels;
  const GemmMatrix* plain;  // the result, if it receives whole tiles of sums
  GemmTile tile;
  int64_t panel;   // columns of a panel of b
  bool in_place;   // whole tiles of a are read where they lie
  int64_t floats;  // of a packed row of the block's depth
  int64_t i0, i1;  // current row block
  int64_t k0, k1;  // current depths of the block
};

/// Copies the live part of a partial tile between the output and the tile buffer.
void copy_tile(const float* from, int64_t from_row, float* to, int64_t to_row, int64_t m,
               int64_t n) {
  for (int64_t i = 0; i < m; ++i) {
    __builtin_memcpy(to + i * to_row, from + i * from_row, static_cast<size_t>(n) * sizeof(float));
  }
}

/// The chains of one block of depth, which begins with a run. `t` has the block's a and b, the
/// earlier runs and the destination of the sum.
/// With `depths_per_float` terms per float, a depth of a is `a_step` / depths_per_float floats; one
/// of b is `b_bytes` / depths_per_float.
void run_tile(TileFn run, GemmTile shape, GemmSumOrder sums, int64_t depth, int64_t a_step,
              int64_t b_bytes, int64_t depths_per_float, TileArgs& t) {
  alignas(64) float chains[kMaxTileFloats];
  float* const out = t.out;
  const int64_t out_row = t.out_row;
  const float* runs = t.runs;
  int64_t k = 0;
  do {
    t.depth = smaller(depth - k, sums.chain);
    t.chains = k % sums.run == 0 ? nullptr : chains;
    k += t.depth;
    const bool ends_run = k == depth || k % sums.run == 0;
    t.runs = ends_run ? runs : nullptr;
    t.out = ends_run ? out : chains, t.out_row = ends_run ? out_row : shape.n;
    run(t);
    if (ends_run) runs = out, t.runs_row = out_row;
    t.a += t.depth * a_step / depths_per_float;
    t.b = reinterpret_cast<const float*>(reinterpret_cast<const char*>(t.b) +
                                         t.depth * b_bytes / depths_per_float);
  } while (k < depth);
}

/// Adds a tile's span to the spans before it: their total and its error are at `sums`, `plane` and
/// 2 · `plane` floats further. After the last span `tile` holds the whole sum.
void add_span(float* tile, GemmTile shape, float* sums, const GemmPartial& s, bool first,
              bool last) {
  for (int64_t i = 0; i < shape.m; ++i) {
    for (int64_t j = 0; j < shape.n; j += kWidth) {
      float *at = tile + i * shape.n + j, *total_at = sums + s.plane + i * s.ld + j;
      float* const error_at = total_at + s.plane;
      Vec total = load<DType::kF32>(at), error = zero();
      if (!first) {
        const Vec v = total;
        total = load<DType::kF32>(total_at), error = load<DType::kF32>(error_at);
        add_exactly(total, error, v);
      }
      if (last) {
        store<DType::kF32>(at, total_of(total, error));
      } else {
        store<DType::kF32>(total_at, total);
        store<DType::kF32>(error_at, error);
      }
    }
  }
}

/// Operands of any type as f32, one term of K per step.
struct FloatCore {
  static constexpr int kNumTiles = DLBLAS_ISA::kNumTiles;
  static constexpr const GemmTile* kShapes = kTileShapes.of;
  static constexpr int kDepths = 1, kDepthsPerFloat = 1, kPad = 0, kStep = kWholeBlock,
                       kPanel = 0;  // see GemmBlocks
  struct Scope {};                  // what a thread sets up for a block

  static void pack(DType type, const PackSource& s, int64_t lanes, int64_t depth, int width,
                   bool /*of_b*/, float* to) {
    pack_panels(type, s, lanes, depth, width, to);
  }
  /// For other types, packing is also the conversion.
  static bool reads_in_place(const GemmJob& p, GemmTile tile, int64_t /*depth*/) {
    return p.a.type == DType::kF32 && tile.m <= kInPlaceRows;
  }
  static void run(const BlockWork& w, bool in_place, TileArgs& t) {
    run_floats(kTiles[w.c.tile].run, 4 * w.panel, w, in_place, t);
  }
  static void run_floats(TileFn tile, int64_t b_bytes, const BlockWork& w, bool in_place,
                         TileArgs& t) {
    if (!in_place) t.a_row = 1, t.a_depth = w.tile.m;
    run_tile(tile, w.tile, w.p.sums, t.depth, t.a_depth, b_bytes, 1, t);
  }
  static void end_span(float* tile, GemmTile shape, float* sums, const GemmPartial& s, bool first,
                       bool last) {
    add_span(tile, shape, sums, s, first, last);
  }
};

/// The sums of one part of the register tile at row i, column j, over the block's depth. Partial
/// sums are read from and written to memory directly, except for ragged tiles of a result without
/// room, for sums that need an epilogue and for whole spans: these use `buffer`. Returns true if it
/// holds whole sums.
bool sum_tile(const BlockWork& w, int part, int64_t i, int64_t j, float* buffer) {
  const GemmJob& p = w.p;
  const int64_t m = smaller(w.tile.m, w.i1 - i), n = smaller(w.tile.n, w.block.j1 - j);
  const bool whole = m == w.tile.m && n == w.tile.n;
  const bool first = w.k0 % p.sums.span == 0, last = w.k1 == p.k;
  const bool ends_span = p.k > p.sums.span && (last || w.k1 % p.sums.span == 0);
  const GemmPartial& s = w.partial;
  float* const sums =
      s.data ? s.data + (i - s.i0) * s.ld + (j - s.j0) * s.column + part * s.part : nullptr;

  TileArgs t{};
  t.depth = w.k1 - w.k0;
  const int64_t before = (w.k0 - w.block.k0) / w.core.depths_per_float;  // floats of a packed lane
  const int64_t column = j - w.block.j0, of_panel = column % w.panel;
  const float* const b = w.panels.b + part * w.panels.part + before * w.panel;
  t.b = reinterpret_cast<const float*>(reinterpret_cast<const char*>(b) +
                                       (column - of_panel) * w.panels.column +
                                       of_panel * w.panels.lane);
  const bool in_place = w.in_place && m == w.tile.m;
  t.a = in_place ? reinterpret_cast<const float*>(address(p.a, i, w.k0))
                 : w.panels.a + (w.in_place ? 0 : (i - w.i0) * w.floats) + before * w.tile.m;
  t.a_row = p.a.row, t.a_depth = p.a.col;
  t.i = i, t.j = j;
  const bool direct = whole || s.padded;
  if (!first) {
    t.runs = direct ? sums : buffer, t.runs_row = direct ? s.ld : w.tile.n;
    if (!direct) copy_tile(sums, s.ld, buffer, w.tile.n, m, n);
  }
  if (ends_span) {
    t.out = buffer, t.out_row = w.tile.n;
  } else if (last && w.plain && whole) {
    t.out = reinterpret_cast<float*>(address(*w.plain, i, j)), t.out_row = w.plain->row;
  } else if (!last && direct) {
    t.out = sums, t.out_row = s.ld;
  } else {
    t.out = buffer, t.out_row = w.tile.n;
  }
  w.core.run(w, in_place, t);
  if (t.out != buffer) return false;
  if (ends_span) w.core.end_span(buffer, w.tile, sums, s, w.k0 < p.sums.span, last);
  if (!last && !ends_span) copy_tile(buffer, w.tile.n, sums, s.ld, m, n);
  return last;
}

/// The register tile at row i, column j: its sums, and the epilogue once they are complete.
DLBLAS_ONCE void multiply_tile(const BlockWork& w, int64_t i, int64_t j) {
  alignas(64) float buffers[kMaxParts][kTileRoom];
  const GemmEpilogue& epilogue = *w.p.epilogue;
  bool whole = false;
  for (int part = 0; part < epilogue.parts; ++part) whole = sum_tile(w, part, i, j, buffers[part]);
  if (!whole) return;
  const int64_t m = smaller(w.tile.m, w.i1 - i), n = smaller(w.tile.n, w.block.j1 - j);
  if (epilogue.store_tile)
    return epilogue.store_tile(w.p.params, GemmBlock{i, i + m, j, j + n, 0, w.p.k}, w.tile,
                               buffers[0]);
  for (int64_t row = 0; row < m; ++row) {
    const float* const sums[kMaxParts] = {buffers[0] + row * w.tile.n, buffers[1] + row * w.tile.n};
    epilogue.store(w.p.params, i + row, j, n, sums);
  }
}

/// The loops around the tile, in the configured order. During a step of depths the outer loop's
/// panel stays in L1 while the inner loop's panels stream through.
void multiply_rows(BlockWork& w, GemmOrder order) {
  const bool columns = order == GemmOrder::kColumns;
  const int64_t begin = columns ? w.block.j0 : w.i0, end = columns ? w.block.j1 : w.i1;
  for (int64_t outer = begin; outer < end; outer += columns ? w.tile.n : w.tile.m) {
    w.k0 = w.block.k0;
    do {
      w.k1 = w.core.step == kWholeBlock ? w.block.k1 : smaller(w.block.k1, w.k0 + w.core.step);
      if (columns) {
        for (int64_t i = w.i0; i < w.i1; i += w.tile.m) multiply_tile(w, i, outer);
      } else {
        for (int64_t j = w.block.j0; j < w.block.j1; j += w.tile.n) multiply_tile(w, outer, j);
      }
      w.k0 = w.k1;
    } while (w.k0 < w.block.k1);
  }
}

/// Columns of a panel of b.
int64_t panel_of(const CoreCode& core, const CpuGemmConfig& c) {
  return core.panel > 0 ? core.panel : core.shapes[c.tile].n;
}

/// Floats of a packed row of a or column of b, for a block's depth.
int64_t panel_floats(const CoreCode& core, int64_t depth) {
  const int64_t packed = (depth + core.depths - 1) / core.depths * core.depths;
  return (packed + core.pad) / core.depths_per_float;
}

DLBLAS_ONCE void pack_part(const CoreCode& core, const GemmJob& p, const CpuGemmConfig& c,
                           const GemmBlock& r, int part, float* packed) {
  const GemmMatrix& b = p.b[part];
  const PackSource source{address(b, r.k0, r.j0), b.col, b.row};
  core.pack(b.type, source, r.j1 - r.j0, r.k1 - r.k0, static_cast<int>(panel_of(core, c)), true,
            packed);
}

DLBLAS_ONCE void multiply_block(const CoreCode& core, const GemmJob& p, const CpuGemmConfig& c,
                                const GemmBlock& block, const GemmPanels& panels,
                                const GemmPartial& partial) {
  const int64_t depth = block.k1 - block.k0;
  BlockWork w{core,
              p,
              c,
              block,
              partial,
              panels,
              nullptr,
              core.shapes[c.tile],
              panel_of(core, c),
              false,
              panel_floats(core, depth),
              0,
              0,
              0,
              0};
  if (p.epilogue->plain) w.plain = p.epilogue->plain(p.params);
  w.in_place = !c.pack_a && core.reads_in_place(p, w.tile, depth);
  for (w.i0 = block.i0; w.i0 < block.i1; w.i0 += c.block_m) {
    w.i1 = smaller(block.i1, w.i0 + c.block_m);
    // A ragged last tile is always packed: reading it in place would run past the last row.
    const int64_t ragged = (w.i1 - w.i0) % w.tile.m;
    const int64_t from = w.in_place ? w.i1 - ragged : w.i0;
    core.pack(p.a.type, {address(p.a, from, block.k0), p.a.row, p.a.col}, w.i1 - from, depth,
              w.tile.m, false, panels.a);
    multiply_rows(w, c.order);
  }
}

template <typename Core>
constexpr CoreCode kCore = {
    Core::kShapes, Core::kDepths, Core::kDepthsPerFloat, Core::kPad, Core::kStep,
    Core::kPanel,  Core::pack,    Core::reads_in_place,  Core::run,  Core::end_span};

template <typename Core>
void pack_b(const GemmJob& p, const CpuGemmConfig& c, const GemmBlock& block, int part,
            float* packed) {
  pack_part(kCore<Core>, p, c, block, part, packed);
}
template <typename Core>
void multiply(const GemmJob& p, const CpuGemmConfig& c, const GemmBlock& block,
              const GemmPanels& panels, const GemmPartial& partial) {
  [[maybe_unused]] const typename Core::Scope scope;
  multiply_block(kCore<Core>, p, c, block, panels, partial);
}

/// A core's loops over blocks.
template <typename Core>
constexpr GemmBlocks blocks_of_core() {
  GemmBlocks code{Core::kShapes, Core::kNumTiles, Core::kDepths, Core::kDepthsPerFloat,
                  Core::kPad,    Core::kStep,     pack_b<Core>,  multiply<Core>,
                  Core::kPanel,  nullptr,         nullptr};
  if constexpr (Core::kPanel > 0)
    code.reads_panels = Core::reads_panels, code.unpack = Core::unpack;
  return code;
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
