// The blocked matmul on CPUs: which configurations exist, which one is the default, and the order
// in which sums are added. In: a Problem, later the Args of a call. Out: a Kernel of one step.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: cpu/gemm/run.hpp.
#include <algorithm>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "cpu/gemm/run.hpp"
#include "ops/gemm/matmul/matmul.hpp"

namespace dlblas::gemm {

namespace {

GemmMatrix matrix_of(const TensorView& tensor) {
  const TensorView t = flat(tensor);
  GemmMatrix m{t.data, t.strides[0], t.strides[1], t.dtype};
  if (t.shape[0] == 1) m.row = 1;
  if (t.shape[1] == 1) m.col = 1;
  return m;
}

}  // namespace

MatmulParams matmul_params(const Args& args) {
  MatmulParams p{};
  p.a = matrix_of(args.tensors[kA]);
  p.b = matrix_of(args.tensors[kB]);
  p.out = matrix_of(args.tensors[kOut]);
  if (args.has(kBias)) {
    const TensorView& bias = args.tensors[kBias];
    p.bias = {bias.data, 0, bias.shape[0] == 1 ? 1 : bias.strides[0], bias.dtype};
  }
  p.m = args.letters[kM], p.n = args.letters[kN], p.k = args.letters[kK];
  p.activation = static_cast<Activation>(args.scalars[kActivation].i);
  return p;
}

GemmJob product_of(const MatmulParams& p) {
  GemmJob job{};
  job.a = p.a, job.b[0] = p.b;
  job.m = p.m, job.n = p.n, job.k = p.k;
  if (p.out.type == DType::kF32 && p.out.col == 1)
    job.partial = static_cast<float*>(p.out.data), job.partial_row = p.out.row;
  return job;
}

// By what OpenBLAS 0.3.31 adds up: dot products of 16 or 64 lanes for a vector and, up to a million
// products, for up to eight columns; shorter chains, up to a million products, for a few rows (seen
// with AVX2 alone); else chains as these.
GemmSumOrder sums_of(const Problem& p) {
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
                                        const KnobTable& (*knobs)(const MatmulLevel&)) {
#if defined(DLBLAS_X86)
  static const MatmulLevel avx512 = {&avx512::kMatmulCode, 16, 1};
  static const MatmulLevel avx2 = {&avx2::kMatmulCode, 8, 0.32};
#endif
  static const MatmulLevel baseline = {&baseline::kMatmulCode, 4, 1};
  return kernels::per_level(base, prefix, {
#if defined(DLBLAS_X86)
    {Isa::kAvx512, source_hash<"ops/gemm/matmul/cpu/matmul_avx512.cpp">(), &avx512, &knobs(avx512)},
        {Isa::kAvx2, source_hash<"ops/gemm/matmul/cpu/matmul_avx2.cpp">(), &avx2, &knobs(avx2)},
#endif
        {Isa::kBaseline, source_hash<"ops/gemm/matmul/cpu/matmul_baseline.cpp">(), &baseline,
         &knobs(baseline)},
  });
}

namespace {

constexpr bool divides_blocks(const GemmSumOrder& s) {
  return 256 % s.run == 0 && s.span % 512 == 0;
}
static_assert(divides_blocks(kLongSums) && divides_blocks(kFewRowsSums) &&
                  divides_blocks(kMiddleSums) && divides_blocks(kShortSums),
              "a block of depth, 256 or 512, is whole runs of one span");

constexpr std::int64_t kFloatBytes = sizeof(float);
std::vector<std::int64_t> tile_values(const GemmCode& level) {
  std::vector<std::int64_t> values;
  for (int i = 0; i < level.num_tiles; ++i) values.push_back(i);
  return values;
}

const KnobTable& make_table(const MatmulLevel& level) {
  using C = CpuGemmConfig;
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

const ConfigTable<CpuGemmConfig>& table_of(const Query& q) {
  return static_cast<const ConfigTable<CpuGemmConfig>&>(*q.self.knobs);
}
const GemmCode& code_of(const Query& q) { return *kernels::code_of<MatmulLevel>(q).code; }

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
  const GemmCode& level = code_of(q);
  const Problem& p = q.problem;
  const std::int64_t m = p.dims[kM], n = p.dims[kN], k = p.dims[kK];
  const int threads = threads_of(p);
  space.require(t, "block_m_distinct", {"block_m"}, [&t, m](const CpuGemmConfig& c) {
    return block_is_distinct(t, "block_m", c.block_m, m);
  });
  space.require(t, "block_n_distinct", {"block_n"}, [&t, n](const CpuGemmConfig& c) {
    return block_is_distinct(t, "block_n", c.block_n, n);
  });
  space.require(t, "block_k_distinct", {"block_k"}, [&t, k](const CpuGemmConfig& c) {
    return block_is_distinct(t, "block_k", c.block_k, k);
  });
  space.require(t, "a_block_fits_l2", {"block_m", "block_k"},
                [l2 = q.device.l2_bytes](const CpuGemmConfig& c) {
                  return c.block_m * c.block_k * kFloatBytes <= l2;
                });
  space.require(t, "rows_enough_to_split", {"tile", "split"},
                [&level, m, threads](const CpuGemmConfig& c) {
                  return c.split == GemmSplit::kColumns ||
                         (threads > 1 && m >= std::int64_t{threads} * level.tiles[c.tile].m);
                });
  const bool f32 = p.tensors[kA].dtype == DType::kF32;
  space.require(t, "in_place_a_is_f32", {"pack_a"},
                [f32](const CpuGemmConfig& c) { return f32 || c.pack_a; });
}

Config heuristic(const Query& q) {
  const Problem& p = q.problem;
  const GemmCode& level = code_of(q);
  // Measured on AMD Zen 4, f32 512×4096×1024, one thread, November 2026: 6x64 with a read in place,
  // blocks 192×1024×512: 109 GFLOP/s; 14x32 packed: 104; block_k 256: 107; 24x16 in place: 27 (24
  // streams of a).
  CpuGemmConfig c{0, 192, 1024, 512, 4, 0, GemmOrder::kColumns, GemmSplit::kColumns, true};
  // The tile with the fewest wasted rows, then the fewest loads per multiply-add.
  double best = 0;
  const auto rows = static_cast<double>(p.dims[kM]);
  for (int i = 0; i < level.num_tiles; ++i) {
    const GemmTile tile = level.tiles[i];
    double used = rows / static_cast<double>(round_up(p.dims[kM], tile.m));
    if (p.dims[kN] <= 16) used /= tile.n;  // a few columns: the narrowest tile
    const double lanes = kernels::code_of<MatmulLevel>(q).lanes;
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

int step(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto& s = kernel.load<GemmBlocked>();
  const MatmulParams p = matmul_params(args);
  run_blocked(s, product_of(p), &p, context, workspace);
  return 0;
}

double estimate(const Query& q, const Config& config) {
  const Problem& p = q.problem;
  const GemmTile tile = code_of(q).tiles[table_of(q).from_config(config).tile];
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
  const TensorTraits& out = p.tensors[kOut];
  const bool holds_sums = out.dtype == DType::kF32 &&
                          (out.layout == Layout::kContiguous || out.layout == Layout::kRowStrided);
  const GemmBlocked s = gemm_blocked(code_of(q), table_of(q).from_config(config), sums_of(p),
                                     threads_of(p), p.dims[kK], holds_sums);
  return make_kernel({step}, s, workspace_bytes(s, p.dims[kM], p.dims[kN], p.dims[kK]));
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
