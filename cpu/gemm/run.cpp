// The loops around a level's code; see run.hpp.
#include "cpu/gemm/run.hpp"

#include <algorithm>
#include <bit>

#include "core/error.hpp"

namespace dlblas {
namespace {

constexpr std::int64_t kFloatBytes = sizeof(float);
/// Rows whose f32 partial sums wait in scratch when the output cannot hold them; rounded up to a
/// multiple of a tile's height. More rows than this pack b again, once per thousand rows.
constexpr std::int64_t kScratchRows = 1024;

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

/// Sizes on which workspace and loops agree, from bucketed or exact dimensions.
struct BlockSizes {
  GemmTile tile;
  std::int64_t panel;    // columns of b that are packed side by side
  std::int64_t columns;  // of b, per thread (split=columns) or in all
  std::int64_t block_n, block_k;
  // Floats of a slot, of a part of b in a block, of a part's scratch.
  std::int64_t a_floats, b_floats, scratch_floats;
  std::int64_t scratch_rows, plane;  // see GemmPartial
  int a_count, b_count;              // slots; b blocks (and scratches)
};

/// Floats of a packed row or column of this depth.
std::int64_t panel_floats(const GemmBlocks& code, std::int64_t depth) {
  return (round_up(depth, code.depths) + code.pad) / code.depths_per_float;
}

BlockSizes sizes_of(const GemmBlocked& s, std::int64_t m, std::int64_t n, std::int64_t k) {
  constexpr std::int64_t kLine = 16;  // floats: buffers start on cache lines
  const CpuGemmConfig& c = s.config;
  BlockSizes p{};
  const GemmBlocks& code = *s.code->blocks;
  p.tile = code.tiles[c.tile];
  p.panel = code.panel > 0 ? code.panel : p.tile.n;
  const bool by_columns = c.split == GemmSplit::kColumns;
  const std::int64_t panels = ceil_div(n, p.panel);
  p.columns = (by_columns ? ceil_div(panels, s.slots) : panels) * p.panel;
  p.block_n = std::min<std::int64_t>(round_up(c.block_n, p.panel), p.columns);
  p.block_k = std::max<std::int64_t>(1, std::min<std::int64_t>(c.block_k, k));
  p.scratch_rows =
      s.scratch ? std::min(round_up(kScratchRows, p.tile.m), round_up(m, p.tile.m)) : m;
  const std::int64_t block_m = std::min<std::int64_t>(c.block_m, round_up(m, p.tile.m));
  p.a_floats = round_up(block_m * panel_floats(*s.code->blocks, p.block_k) + kPackSlack, kLine);
  // Panels that are read where they lie need room only for the last columns.
  const bool reads = s.panels != DType::kAbsent && !s.unpacks &&
                     code.reads_panels(s.panels, p.block_k) &&
                     code.reads_panels(s.panels, k % p.block_k);
  const std::int64_t packed = reads ? p.panel : p.block_n;
  p.b_floats = round_up(packed * panel_floats(code, p.block_k) + kPackSlack, kLine);
  p.plane = s.scratch ? p.scratch_rows * p.block_n : 0;
  p.scratch_floats = p.plane * (s.spans ? 3 : 1);
  p.a_count = s.slots;
  p.b_count = by_columns ? s.slots : 1;
  return p;
}

/// The state of one call.
struct Run {
  const GemmBlocked& s;
  const GemmJob& p;
  const BlockSizes sizes;
  float* workspace;
  std::int64_t i0, i1;  // the rows of this pass

  float* a_buffer(std::int64_t slot) const { return workspace + slot * sizes.a_floats; }
  float* b_buffer(std::int64_t index) const {
    return workspace + sizes.a_count * sizes.a_floats +
           index * s.code->epilogue.parts * sizes.b_floats;
  }
  GemmPartial partial(std::int64_t index, std::int64_t j0) const {
    if (!s.scratch) return {p.partial, p.partial_row, 1, 0, 0, false, 0, 0};
    float* data = b_buffer(sizes.b_count) + index * s.code->epilogue.parts * sizes.scratch_floats;
    return {data, sizes.tile.n, sizes.scratch_rows, i0,
            j0,   true,         sizes.plane,        sizes.scratch_floats};
  }
  /// Are the block's columns in whole panels? for_blocks does not mix them with the last ones.
  bool in_panels(const GemmBlock& block) const { return p.panels && block.j0 < panel_columns(p.n); }
  bool reads_panels(const GemmBlock& block) const {
    return in_panels(block) && !s.unpacks &&
           s.code->blocks->reads_panels(s.panels, block.k1 - block.k0);
  }
  void pack(const GemmBlock& block, float* to) const {
    if (reads_panels(block)) return;
    if (in_panels(block)) return s.code->blocks->unpack(p, block, to);
    for (int part = 0; part < s.code->epilogue.parts; ++part)
      s.code->blocks->pack_b(p, s.config, block, part, to + part * sizes.b_floats);
  }
  /// Multiplies a block within the columns of block `index` of b.
  void multiply(const GemmBlock& block, std::int64_t index, std::int64_t slot) const {
    const GemmBlocks& code = *s.code->blocks;
    GemmPanels panels{
        b_buffer(index), sizes.b_floats, kFloatBytes * panel_floats(code, block.k1 - block.k0),
        kFloatBytes,     DType::kF32,    a_buffer(slot)};
    if (reads_panels(block)) {
      const std::int64_t first = panel_start(p.n, p.k, block.j0, block.k0),
                         size = size_of(s.panels);
      panels.b = reinterpret_cast<const float*>(static_cast<const char*>(p.panels) + first * size);
      panels.column = panel_depth(p.k, block.k0) * size;
      panels.type = s.panels;
      if (!has_panel_pairs(s.panels)) panels.lane = size;
    }
    code.multiply(p, s.config, block, panels, partial(index, block.j0));
  }
  /// Calls fn(block) over columns [j0, j1) and the whole depth, once even when the depth is zero.
  template <typename F>
  void for_blocks(std::int64_t j0, std::int64_t j1, F&& fn) const {
    const std::int64_t whole = p.panels ? panel_columns(p.n) : 0;  // none beyond in the same block
    for (std::int64_t j = j0, end; j < j1; j = end) {
      end = std::min(j1, j + sizes.block_n);
      if (j < whole) end = std::min(end, whole);
      std::int64_t k = 0;
      do {
        fn(GemmBlock{i0, i1, j, end, k, std::min(p.k, k + sizes.block_k)});
        k += sizes.block_k;
      } while (k < p.k);
    }
  }
};

void run_columns(const Run& r, const Context& context) {
  context.run(0, r.s.slots, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t slot = begin; slot < end; ++slot) {
      const std::int64_t j0 = slot * r.sizes.columns;
      r.for_blocks(j0, std::min(r.p.n, j0 + r.sizes.columns), [&](const GemmBlock& block) {
        r.pack(block, r.b_buffer(slot));
        r.multiply(block, slot, slot);
      });
    }
  });
}

void run_rows(const Run& r, const Context& context) {
  const std::int64_t slots = r.s.slots;
  const std::int64_t tile_m = r.sizes.tile.m, panel = r.sizes.panel;
  const std::int64_t rows = ceil_div(ceil_div(r.i1 - r.i0, tile_m), slots) * tile_m;
  r.for_blocks(0, r.p.n, [&](const GemmBlock& block) {
    const std::int64_t columns = ceil_div(ceil_div(block.j1 - block.j0, panel), slots) * panel;
    if (!r.reads_panels(block))
      context.run(0, slots, 1, [&](std::int64_t begin, std::int64_t end) {
        GemmBlock part = block;
        part.j0 = std::min(block.j1, block.j0 + begin * columns);
        part.j1 = std::min(block.j1, block.j0 + end * columns);
        float* to = r.b_buffer(0) +
                    (part.j0 - block.j0) * panel_floats(*r.s.code->blocks, block.k1 - block.k0);
        if (part.j0 < part.j1) r.pack(part, to);
      });
    context.run(0, slots, 1, [&](std::int64_t begin, std::int64_t end) {
      GemmBlock part = block;
      part.i0 = std::min(block.i1, block.i0 + begin * rows);
      part.i1 = std::min(block.i1, block.i0 + end * rows);
      r.multiply(part, 0, begin);
    });
  });
}

}  // namespace

GemmBlocked gemm_blocked(const GemmCode& code, const CpuGemmConfig& config,
                         const GemmSumOrder& sums, int threads, std::int64_t k, bool holds_sums) {
  if (config.block_k % sums.run != 0 || (k > sums.span && sums.span % config.block_k != 0))
    throw Error(ErrorKind::kInternal,
                text("gemm: block_k is ", config.block_k, "; expected whole runs of ", sums.run,
                     " that divide a span of ", sums.span),
                {.argument = "block_k"});
  GemmBlocked s{&code, config, sums, threads, false, k > sums.span};
  const std::int64_t step = code.blocks->step == kWholeBlock
                                ? config.block_k
                                : std::min(code.blocks->step, config.block_k);
  s.scratch = s.spans || (!(holds_sums && code.epilogue.parts == 1) && k > step);
  // Whole tiles per row block: otherwise every block would pay for a ragged one.
  s.config.block_m =
      static_cast<std::int32_t>(round_up(config.block_m, code.blocks->tiles[config.tile].m));
  return s;
}

std::size_t workspace_bytes(const GemmBlocked& s, std::int64_t m, std::int64_t n, std::int64_t k) {
  const BlockSizes sizes = sizes_of(s, m, n, k);
  return static_cast<std::size_t>(
      kFloatBytes * (sizes.a_count * sizes.a_floats + sizes.b_count * s.code->epilogue.parts *
                                                          (sizes.b_floats + sizes.scratch_floats)));
}

void run_blocked(const GemmBlocked& s, GemmJob job, const void* params, const Context& context,
                 void* workspace) {
  if (job.m == 0 || job.n == 0) return;
  job.sums = s.sums, job.epilogue = &s.code->epilogue, job.params = params;
  Run r{s, job, sizes_of(s, job.m, job.n, job.k), static_cast<float*>(workspace), 0, 0};
  for (r.i0 = 0; r.i0 < job.m; r.i0 = r.i1) {
    r.i1 = std::min(job.m, r.i0 + r.sizes.scratch_rows);
    if (s.config.split == GemmSplit::kColumns) {
      run_columns(r, context);
    } else {
      run_rows(r, context);
    }
  }
}

// ---- Few rows ----

namespace {
std::int64_t row_floats(const GemmCode& code, std::int64_t m, std::int64_t k) {
  if (code.blocks->depths_per_float > 1)  // on a unit for bf16
    return round_up(m, kMinColumnsOfTiles) * round_up(k, code.blocks->depths) /
           code.blocks->depths_per_float;
  const auto rows = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(m)));
  // The last K part is full; m = 9 makes two groups of eight rows.
  const std::int64_t parts = group_rows(m) * round_up(k, kSharedDepth);
  return round_up(std::max(rows * k, m >= kSharedRows ? parts : 0) + kPackSlack, kPackSlack);
}
std::int64_t sum_floats(const GemmFewRows& s) {
  return std::int64_t{kRowPlanes} * kMaxRowGroup * s.config.block_n * s.code->epilogue.parts;
}
}  // namespace

CpuGemmRowConfig few_rows_config(DType b, bool dots) {
  // 1×4096×4096 on one core of AMD Zen 4, November 2026: for an f32 b, prefetching gains only where
  // streams are columns. With 16 bits a row's share is a page or
  // less, so the hardware prefetcher restarts in each: prefetching the next four rows takes 0.63 of
  // the time on Zen 5, and 0.93 (one row) to 0.4 (eight) on Cascade Lake.
  if (b == DType::kF32) return {1, 0, dots ? 256 : 0, dots};
  return {1, 0, dots ? 512 : kNextRows, dots};
}

std::size_t workspace_bytes(const GemmFewRows& s, std::int64_t m, std::int64_t k) {
  return static_cast<std::size_t>(kFloatBytes *
                                  (row_floats(*s.code, m, k) + s.slots * sum_floats(s)));
}

void run_few_rows(const GemmFewRows& s, GemmJob job, const void* params, const Context& context,
                  void* workspace) {
  if (job.m == 0 || job.n == 0) return;
  job.sums = s.sums, job.epilogue = &s.code->epilogue, job.params = params;
  auto* rows = static_cast<float*>(workspace);
  s.code->rows->pack(job, s.config, rows);
  float* sums = rows + row_floats(*s.code, job.m, job.k);
  // Whole cache lines of f32 columns per thread, even where elements are half as wide.
  const std::int64_t share = round_up(ceil_div(job.n, s.slots), 32);
  context.run(0, s.slots, 1, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t j0 = std::min(job.n, begin * share), j1 = std::min(job.n, end * share);
    if (j0 < j1) s.code->rows->row(job, s.config, j0, j1, rows, sums + begin * sum_floats(s));
  });
}

}  // namespace dlblas
