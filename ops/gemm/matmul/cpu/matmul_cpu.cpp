// The blocked matmul on CPUs: which configurations exist, which one is the default, and the loops
// over cache blocks that the instruction-set code (matmul_simd.hpp) fills.
// In: a Problem, later the Args of a call. Out: a Kernel of one step.
//
//   split=columns   each thread: for j, for k: pack its b block; for i: pack a, multiply
//   split=rows      for j, for k: all threads pack one b block; then each multiplies its rows
//
// Flow: call > validate > [select] > [compile] > [launch].  Read next: matmul_simd.hpp.
#include <algorithm>

#include "core/rates.hpp"
#include "generated/source_hashes.hpp"
#include "ops/gemm/matmul/matmul.hpp"

namespace dlblas::gemm {

static_assert(static_cast<int>(Element::kF32) == static_cast<int>(DType::kF32) &&
              static_cast<int>(Element::kF16) == static_cast<int>(DType::kF16) &&
              static_cast<int>(Element::kBF16) == static_cast<int>(DType::kBF16));

namespace {

Matrix matrix_of(const TensorView& t) {
  Matrix m{t.data, t.strides[0], t.strides[1], static_cast<Element>(t.dtype)};
  if (t.shape[0] == 1) m.row = 1;
  if (t.shape[1] == 1) m.col = 1;
  return m;
}

}  // namespace

MatmulParams matmul_params(const Args& args, const MatmulSums& sums) {
  MatmulParams p{};
  p.a = matrix_of(args.tensors[kA]);
  p.b = matrix_of(args.tensors[kB]);
  p.out = matrix_of(args.tensors[kOut]);
  if (args.has(kBias)) {
    const TensorView& bias = args.tensors[kBias];
    p.bias = {bias.data, 0, bias.shape[0] == 1 ? 1 : bias.strides[0],
              static_cast<Element>(bias.dtype)};
  }
  p.m = args.letters[kM], p.n = args.letters[kN], p.k = args.letters[kK];
  p.activation = static_cast<Activation>(args.scalars[kActivation].i);
  p.sums = sums;
  return p;
}

// By what OpenBLAS 0.3.31 adds up: dot products of 16 or 64 lanes for a vector and, up to a million
// products, for up to eight columns; shorter chains, up to a million products, for a few rows (seen
// with AVX2 alone); else chains as these.
MatmulSums sums_of(const Problem& p) {
  const std::int64_t n = p.dims[kN], k = p.dims[kK];
  const bool any_batch = p.flags & kDeterministic;
  const bool one_row = p.dims[kM] <= 1 && !any_batch, vector = one_row || n <= 1;
  const bool small = n <= 8 && !any_batch && multiply_adds(p) <= 1e6;
  if (small || (vector && k < 256) || (one_row && n <= 1)) return kShortSums;
  if (vector && k < 2048) return kMiddleSums;
  const bool few_rows = p.dims[kM] <= 8 && !any_batch && multiply_adds(p) <= 1e6;
  return few_rows ? kFewRowsSums : kLongSums;
}

std::vector<Implementation> gemm_levels(const Implementation& base, const char* prefix,
                                        const KnobTable& (*knobs)(const GemmLevel&)) {
#if defined(DLBLAS_X86)
  static const GemmLevel avx512 = {&avx512::kMatmulLevel, 16, 1};
  static const GemmLevel avx2 = {&avx2::kMatmulLevel, 8, 0.32};
#endif
  static const GemmLevel baseline = {&baseline::kMatmulLevel, 4, 1};
  return kernels::per_level(base, prefix, {
#if defined(DLBLAS_X86)
    {Isa::kAvx512, source_hash("ops/gemm/matmul/cpu/matmul_avx512.cpp"), &avx512, &knobs(avx512)},
        {Isa::kAvx2, source_hash("ops/gemm/matmul/cpu/matmul_avx2.cpp"), &avx2, &knobs(avx2)},
#endif
        {Isa::kBaseline, source_hash("ops/gemm/matmul/cpu/matmul_baseline.cpp"), &baseline,
         &knobs(baseline)},
  });
}

namespace {

constexpr bool divides_blocks(const MatmulSums& s) { return 256 % s.run == 0 && s.span % 512 == 0; }
static_assert(divides_blocks(kLongSums) && divides_blocks(kFewRowsSums) &&
                  divides_blocks(kMiddleSums) && divides_blocks(kShortSums),
              "a block of depth, 256 or 512, is whole runs of one span");

constexpr std::int64_t kFloatBytes = sizeof(float);
/// Rows whose f32 partial sums wait in scratch when the output cannot hold them. A multiple of
/// every tile's height is made of it; more rows than this pack b again, once in a thousand rows.
constexpr std::int64_t kScratchRows = 1024;

std::vector<std::int64_t> tile_values(const MatmulLevel& level) {
  std::vector<std::int64_t> values;
  for (int i = 0; i < level.num_tiles; ++i) values.push_back(i);
  return values;
}

const KnobTable& make_table(const GemmLevel& level) {
  using C = MatmulConfig;
  auto* labels = new std::vector<std::string>;  // lives as long as the process, as the table does
  for (int i = 0; i < level.code->num_tiles; ++i)
    labels->push_back(text(level.code->tiles[i].m, "x", level.code->tiles[i].n));
  return *new ConfigTable<C>{
      field<&C::tile>("tile", tile_values(*level.code), {labels->begin(), labels->end()}),
      field<&C::block_m>("block_m", {96, 192, 384}),
      field<&C::block_n>("block_n", {512, 1024, 4096}),
      field<&C::block_k>("block_k", {256, 512}),
      field<&C::unroll_k>("unroll_k", {1, 2, 4}),
      field<&C::prefetch>("prefetch", {0, 8}),
      field<&C::order>("order", {0, 1}, {"columns", "rows"}),
      field<&C::split>("split", {0, 1}, {"columns", "rows"}),
      field<&C::pack_a>("pack_a", {0, 1}),
  };
}

const ConfigTable<MatmulConfig>& table_of(const Query& q) {
  return static_cast<const ConfigTable<MatmulConfig>&>(*q.self.knobs);
}
const MatmulLevel& level_of(const Query& q) { return *kernels::code_of<GemmLevel>(q).code; }

int threads_of(const Problem& p) { return std::max<int>(1, p.threads); }

/// True when no smaller value of the knob already covers the dimension: larger blocks would run the
/// same loops.
bool block_is_distinct(const KnobTable& knobs, std::string_view name, std::int64_t value,
                       std::int64_t size) {
  for (std::int64_t v : knobs.values(name)) {
    if (v < value && v >= size) return false;
  }
  return true;
}

void constrain(const Query& q, Space& space) {
  const auto& t = table_of(q);
  const MatmulLevel& level = level_of(q);
  const Problem& p = q.problem;
  const std::int64_t m = p.dims[kM], n = p.dims[kN], k = p.dims[kK];
  const int threads = threads_of(p);
  space.require(t, "block_m_distinct", {"block_m"}, [&t, m](const MatmulConfig& c) {
    return block_is_distinct(t, "block_m", c.block_m, m);
  });
  space.require(t, "block_n_distinct", {"block_n"}, [&t, n](const MatmulConfig& c) {
    return block_is_distinct(t, "block_n", c.block_n, n);
  });
  space.require(t, "block_k_distinct", {"block_k"}, [&t, k](const MatmulConfig& c) {
    return block_is_distinct(t, "block_k", c.block_k, k);
  });
  space.require(t, "a_block_fits_l2", {"block_m", "block_k"},
                [l2 = q.device.l2_bytes](const MatmulConfig& c) {
                  return c.block_m * c.block_k * kFloatBytes <= l2;
                });
  space.require(t, "rows_enough_to_split", {"tile", "split"},
                [&level, m, threads](const MatmulConfig& c) {
                  return c.split == Split::kColumns ||
                         (threads > 1 && m >= std::int64_t{threads} * level.tiles[c.tile].m);
                });
  const bool f32 = p.tensors[kA].dtype == DType::kF32;
  space.require(t, "in_place_a_is_f32", {"pack_a"},
                [f32](const MatmulConfig& c) { return f32 || c.pack_a; });
}

Config heuristic(const Query& q) {
  const Problem& p = q.problem;
  const MatmulLevel& level = level_of(q);
  // Measured on AMD Zen 4, f32 512×4096×1024, one thread, November 2026: 6x64 with a read in place,
  // blocks 192×1024×512: 109 GFLOP/s; 14x32 packed: 104; block_k 256: 107; 24x16 in place: 27 (24
  // streams of a).
  MatmulConfig c{0, 192, 1024, 512, 4, 0, Order::kColumns, Split::kColumns, true};
  // The tile with the fewest wasted rows, then the fewest loads per multiply-add.
  double best = 0;
  const auto rows = static_cast<double>(p.dims[kM]);
  for (int i = 0; i < level.num_tiles; ++i) {
    const MatmulTile tile = level.tiles[i];
    double used = rows / static_cast<double>(round_up(p.dims[kM], tile.m));
    if (p.dims[kN] <= 16) used /= tile.n;  // a few columns: the narrowest tile
    const double lanes = kernels::code_of<GemmLevel>(q).lanes;
    const double loads = 1.0 / tile.m + lanes / tile.n;
    const double score = used / (1 + 0.3 * loads);
    if (score > best) best = score, c.tile = i;
  }
  constexpr int kStreams = 8;  // rows of a that hardware prefetching follows side by side
  const Layout a = p.tensors[kA].layout;
  c.pack_a = p.tensors[kA].dtype != DType::kF32 || level.tiles[c.tile].m > kStreams ||
             (a != Layout::kContiguous && a != Layout::kRowStrided);
  const KnobTable& knobs = *q.self.knobs;
  const auto fit = [&](std::string_view name, std::int64_t wish, std::int64_t size) {
    std::int64_t fitting = knobs.values(name).front();
    for (std::int64_t v : knobs.values(name)) {
      if (v <= wish && block_is_distinct(knobs, name, v, size)) fitting = v;
    }
    return static_cast<std::int32_t>(fitting);
  };
  // With few rows packing b is most of the work and wants long runs of it: 16×4096×4096 takes 9.0
  // ms with 4096×256 against 10.6 with 1024 columns.
  constexpr std::int64_t kFewRows = 64;
  if (p.dims[kM] <= kFewRows) c.block_n = 4096, c.block_k = 256;
  c.block_m = fit("block_m", c.block_m, p.dims[kM]);
  c.block_n = fit("block_n", c.block_n, p.dims[kN]);
  c.block_k = fit("block_k", c.block_k, p.dims[kK]);
  if (c.block_m * c.block_k * kFloatBytes > q.device.l2_bytes) c.block_m = 96, c.block_k = 256;
  return table_of(q).to_config(c);
}

/// Sizes that workspace and loops agree on, from bucketed or exact dimensions.
struct Plan {
  MatmulTile tile;
  std::int64_t columns;  // of b, per thread (split=columns) or in all
  std::int64_t block_n, block_k;
  std::int64_t a_floats, b_floats, scratch_floats;  // each slot's, each b block's, each scratch
  std::int64_t scratch_rows, plane;                 // see MatmulPartial
  int a_count, b_count;                             // slots; b blocks (and scratches)
};

struct State {
  const MatmulLevel* level;
  MatmulConfig config;
  MatmulSums sums;
  int slots;
  bool scratch;  // partial sums cannot stay in the output
  bool spans;    // K has more than one: scratch keeps their total and its error, too
};

Plan plan_of(const State& s, std::int64_t m, std::int64_t n, std::int64_t k) {
  constexpr std::int64_t kLine = 16;  // floats: buffers start on cache lines
  const MatmulConfig& c = s.config;
  Plan p{};
  p.tile = s.level->tiles[c.tile];
  const bool by_columns = c.split == Split::kColumns;
  const std::int64_t panels = ceil_div(n, p.tile.n);
  p.columns = (by_columns ? ceil_div(panels, s.slots) : panels) * p.tile.n;
  p.block_n = std::min<std::int64_t>(round_up(c.block_n, p.tile.n), p.columns);
  p.block_k = std::max<std::int64_t>(1, std::min<std::int64_t>(c.block_k, k));
  p.scratch_rows =
      s.scratch ? std::min(round_up(kScratchRows, p.tile.m), round_up(m, p.tile.m)) : m;
  const std::int64_t block_m = std::min<std::int64_t>(c.block_m, round_up(m, p.tile.m));
  p.a_floats = round_up(block_m * p.block_k + kPackSlack, kLine);
  p.b_floats = round_up(p.block_n * p.block_k + kPackSlack, kLine);
  p.plane = s.scratch ? p.scratch_rows * p.block_n : 0;
  p.scratch_floats = p.plane * (s.spans ? 3 : 1);
  p.a_count = s.slots;
  p.b_count = by_columns ? s.slots : 1;
  return p;
}

/// One call at work.
struct Run {
  const State& s;
  const MatmulParams& p;
  const Plan plan;
  float* workspace;
  std::int64_t i0, i1;  // the rows of this pass

  float* a_buffer(std::int64_t slot) const { return workspace + slot * plan.a_floats; }
  float* b_buffer(std::int64_t index) const {
    return workspace + plan.a_count * plan.a_floats + index * plan.b_floats;
  }
  MatmulPartial partial(std::int64_t index, std::int64_t j0) const {
    if (!s.scratch) return {static_cast<float*>(p.out.data), p.out.row, 0, 0, false, 0};
    float* data = b_buffer(plan.b_count) + index * plan.scratch_floats;
    return {data, plan.block_n, i0, j0, true, plan.plane};
  }
  /// Calls fn(block) over columns [j0, j1) and the whole depth, once even when the depth is zero.
  template <typename F>
  void for_blocks(std::int64_t j0, std::int64_t j1, F&& fn) const {
    for (std::int64_t j = j0; j < j1; j += plan.block_n) {
      std::int64_t k = 0;
      do {
        fn(MatmulBlock{i0, i1, j, std::min(j1, j + plan.block_n), k,
                       std::min(p.k, k + plan.block_k)});
        k += plan.block_k;
      } while (k < p.k);
    }
  }
};

void run_columns(const Run& r, const Context& context) {
  context.run(0, r.s.slots, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t slot = begin; slot < end; ++slot) {
      const std::int64_t j0 = slot * r.plan.columns;
      r.for_blocks(j0, std::min(r.p.n, j0 + r.plan.columns), [&](const MatmulBlock& block) {
        r.s.level->pack_b(r.p, r.s.config, block, r.b_buffer(slot));
        r.s.level->multiply(r.p, r.s.config, block, r.b_buffer(slot), r.a_buffer(slot),
                            r.partial(slot, block.j0));
      });
    }
  });
}

void run_rows(const Run& r, const Context& context) {
  const std::int64_t slots = r.s.slots;
  const std::int64_t tile_m = r.plan.tile.m, tile_n = r.plan.tile.n;
  const std::int64_t rows = ceil_div(ceil_div(r.i1 - r.i0, tile_m), slots) * tile_m;
  r.for_blocks(0, r.p.n, [&](const MatmulBlock& block) {
    const std::int64_t columns = ceil_div(ceil_div(block.j1 - block.j0, tile_n), slots) * tile_n;
    context.run(0, slots, 1, [&](std::int64_t begin, std::int64_t end) {
      MatmulBlock part = block;
      part.j0 = std::min(block.j1, block.j0 + begin * columns);
      part.j1 = std::min(block.j1, block.j0 + end * columns);
      float* to = r.b_buffer(0) + (part.j0 - block.j0) * (block.k1 - block.k0);
      if (part.j0 < part.j1) r.s.level->pack_b(r.p, r.s.config, part, to);
    });
    context.run(0, slots, 1, [&](std::int64_t begin, std::int64_t end) {
      MatmulBlock part = block;
      part.i0 = std::min(block.i1, block.i0 + begin * rows);
      part.i1 = std::min(block.i1, block.i0 + end * rows);
      r.s.level->multiply(r.p, r.s.config, part, r.b_buffer(0), r.a_buffer(begin),
                          r.partial(0, block.j0));
    });
  });
}

int step(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const State& s = kernel.load<State>();
  const MatmulParams p = matmul_params(args, s.sums);
  if (p.m == 0 || p.n == 0) return 0;
  Run r{s, p, plan_of(s, p.m, p.n, p.k), static_cast<float*>(workspace), 0, 0};
  for (r.i0 = 0; r.i0 < p.m; r.i0 = r.i1) {
    r.i1 = std::min(p.m, r.i0 + r.plan.scratch_rows);
    if (s.config.split == Split::kColumns) {
      run_columns(r, context);
    } else {
      run_rows(r, context);
    }
  }
  return 0;
}

double estimate(const Query& q, const Config& config) {
  const Problem& p = q.problem;
  const MatmulTile tile = level_of(q).tiles[table_of(q).from_config(config).tile];
  const auto threads = static_cast<double>(threads_of(p));
  const auto m = static_cast<double>(round_up(p.dims[kM], tile.m));
  const auto n = static_cast<double>(round_up(p.dims[kN], tile.n));
  const auto k = static_cast<double>(p.dims[kK]);
  const double multiply = 2 * m * n * k / kernels::rates_of(q).f32_flops;
  // As f32, from the machine's memory, whichever level packs.
  const double memory = unit_rates(q.device, q.device.isa_hardware).memory_bytes_per_s;
  const double pack = kFloatBytes * (m * k + n * k) / (kPacking * memory);
  return 1e3 * (multiply + pack) / threads + 0.005;
}

Kernel prepare(const Query& q, const Config& config) {
  const Problem& p = q.problem;
  State s{&level_of(q), table_of(q).from_config(config), sums_of(p), threads_of(p), false, false};
  const TensorTraits& out = p.tensors[kOut];
  const bool holds_sums = out.dtype == DType::kF32 &&
                          (out.layout == Layout::kContiguous || out.layout == Layout::kRowStrided);
  s.spans = p.dims[kK] > s.sums.span;
  s.scratch = s.spans || (!holds_sums && p.dims[kK] > s.config.block_k);
  // Whole tiles to a row block: a ragged one in every block would be paid every time.
  s.config.block_m =
      static_cast<std::int32_t>(round_up(s.config.block_m, s.level->tiles[s.config.tile].m));
  const Plan plan = plan_of(s, p.dims[kM], p.dims[kN], p.dims[kK]);
  return make_kernel({step}, s,
                     static_cast<std::size_t>(
                         kFloatBytes * (plan.a_count * plan.a_floats +
                                        plan.b_count * (plan.b_floats + plan.scratch_floats))));
}

}  // namespace

void append_blocked(std::vector<Implementation>& to) {
  Implementation base;
  base.flags.deterministic = true;
  base.constrain = constrain;
  base.heuristic = heuristic;
  base.estimate = estimate;
  base.prepare = prepare;
  for (const Implementation& impl : gemm_levels(base, "cpu_", make_table)) to.push_back(impl);
}

}  // namespace dlblas::gemm
