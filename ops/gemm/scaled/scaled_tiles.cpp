// Products of codes on CPUs with AMX: i8 with sums in i32, which are exact; f8 as bf16, with sums
// in f32. In: a Problem, later the Args of a call. Out: a Kernel of one step.
// Numerics: the same order of sums in every configuration; i8 with row and column scales has the
// same bits as the levels of scaled_cpu.cpp.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: scaled_amx.cpp.
#include "ops/gemm/scaled/scaled_tiles.hpp"

#include <algorithm>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "ops/gemm/scaled/scaled_tiles_config.hpp"

namespace dlblas::gemm::scaled {

#if defined(DLBLAS_X86)
namespace {

using kernels::Multiplier;
using kernels::ProductLevel;

constexpr ProductLevel kI8 = {&avx512::kI8Amx, 16, 1, Multiplier::kTiles};
constexpr ProductLevel kI8Block = {&avx512::kI8BlockAmx, 16, 1, Multiplier::kTiles};
constexpr ProductLevel kE4m3 = {&avx512::kE4m3Amx, 16, 1, Multiplier::kTiles};
constexpr ProductLevel kE4m3Block = {&avx512::kE4m3BlockAmx, 16, 1, Multiplier::kTiles};
constexpr ProductLevel kE5m2Block = {&avx512::kE5m2BlockAmx, 16, 1, Multiplier::kTiles};

/// Up to this many rows of a, i8 columns of b are multiplied in place.
constexpr std::int64_t kFewRows = 64;

int threads_of(const Query& q) { return std::max<int>(1, q.problem.threads); }

TilesProduct product_of(const Query& q) {
  const Problem& p = q.problem;
  return {p.dims[kM],
          p.dims[kN],
          p.dims[kK],
          p.tensors[kA].dtype,
          kernels::op_of<Scales>(q),
          p.tensors[kB].layout == Layout::kTransposed};
}
kernels::BlockedProduct blocked_of(const Query& q) {
  const TilesProduct p = product_of(q);
  const TensorTraits* a = &q.problem.tensors[p.turned ? kB : kA];
  return {p.turned ? p.n : p.m, p.turned ? p.m : p.n, p.k, 1, a, &tiles_level(p.type, p.scales)};
}

void constrain(const Query& q, Space& space) {
  kernels::constrain_blocked(q, blocked_of(q), space);
  const bool stored = q.problem.tensors[kA].dtype == DType::kI8;
  space.require(tiles_table(), "codes_of_i8_lie_as_multiplied", {"pack_a"},
                [stored](const CpuGemmConfig& c) { return stored || c.pack_a; });
}

Config heuristic(const Query& q) {
  return kernels::fit_blocked(q, blocked_of(q), tiles_config(product_of(q), threads_of(q)));
}

/// Sums of i8 equal those of every other level.
Support same_bits(const Query& q) {
  if (kernels::op_of<Scales>(q) == Scales::kChannel && q.problem.tensors[kA].dtype == DType::kI8)
    return Support::yes();
  return Support::no("adds up in another order than the instruction sets that all CPUs have");
}

int step(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto& s = kernel.load<Tiles>();
  run_tiles(s, job_of(args, s.blocks ? Scales::kBlock : Scales::kChannel), context, workspace);
  return 0;
}

Kernel prepare(const Query& q, const Config& config) {
  const TilesProduct p = product_of(q);
  const Tiles s = prepare_tiles(p, tiles_table().from_config(config), threads_of(q));
  return make_kernel({step}, s, workspace_bytes(s, p.m, p.n, p.k));
}

/// Floats of one group, and of all, in the table of a's block scales.
std::int64_t scales_pitch(std::int64_t m) { return round_up(m, kTilesRows); }
std::int64_t scales_floats(const Tiles& s, std::int64_t m, std::int64_t k) {
  return s.blocks ? ceil_div(k, kGroup) * scales_pitch(m) : 0;
}

/// Makes each group's scales of all rows contiguous, padded with zeros.
void gather_scales(const ScaledJob& job, float* to) {
  const std::int64_t pitch = scales_pitch(job.m);
  const auto* const from = static_cast<const float*>(job.a_scale.data);
  for (std::int64_t g = 0; g < ceil_div(job.k, kGroup); ++g) {
    for (std::int64_t i = 0; i < pitch; ++i)
      to[g * pitch + i] = i < job.m ? from[i * job.a_scale.row + g * job.a_scale.col] : 0.0f;
  }
}

GemmMatrix matrix_of(const ScaledMatrix& m, bool turned) {
  return {m.data, turned ? m.col : m.row, turned ? m.row : m.col, m.type};
}

}  // namespace

const ConfigTable<CpuGemmConfig>& tiles_table() {
  static const auto& table = kernels::blocked_table(kI8);
  return table;
}

const ProductLevel& tiles_level(DType type, Scales scales) {
  const bool blocks = scales == Scales::kBlock;
  if (type == DType::kI8) return blocks ? kI8Block : kI8;
  if (type == DType::kF8E5M2) return kE5m2Block;
  return blocks ? kE4m3Block : kE4m3;
}

CpuGemmConfig tiles_config(const TilesProduct& p, int threads) {
  const std::int64_t m = p.turned ? p.n : p.m, n = p.turned ? p.m : p.n;
  // Granite Rapids, one thread, b 4096×4096 along K, November 2026, ms. i8, 512 rows: 192×512×1024
  // 8.7, 96×256×1024 11. 16 rows in place 0.83, packed 1.2; 64 rows 1.27 and 1.8. e4m3, 16 rows:
  // 2048 deep by rows 2.03, 512 by columns 2.2.
  CpuGemmConfig c{0, 192, 512, 1024, GemmOrder::kColumns, GemmSplit::kColumns, true};
  constexpr std::int64_t kNarrow = 16;
  if (n <= kNarrow)
    c.tile = 2;
  else if (m <= kNarrow)
    c.tile = 1;
  if (p.turned && n <= kFewRows) {
    const bool in_place = p.type == DType::kI8;
    c.block_m = 96, c.block_k = in_place ? 4096 : 2048;
    c.order = GemmOrder::kRows, c.pack_a = !in_place;
  }
  if (p.turned && threads > 1 && m >= std::int64_t{kTilesRows} * threads)
    c.split = GemmSplit::kRows;
  return c;
}

// Granite Rapids, one thread of a busy machine, b 4096×4096, November 2026, ms: i8 along K, 1 row
// 0.72, 64 1.23, 512 8.7; along N 1.9, 3.3 and 13.5; e4m3 along K 2.1, 3.9 and 17, with block
// scales 25. The rate tables assume half that speed.
double tiles_ms(const Query& q, const TilesProduct& p) {
  const double threads = threads_of(q);
  const auto m = static_cast<double>(round_up(p.m, 16)), n = static_cast<double>(p.n),
             k = static_cast<double>(p.k);
  const bool integers = p.type == DType::kI8, blocks = p.scales == Scales::kBlock;
  const Rates rates = kernels::rates_of(q);
  const double speed = integers ? (blocks ? 6 : 10.4) : (blocks ? 3.7 : 5.5);
  const double multiply = 2 * m * n * k / (rates.f32_flops * speed);
  const double memory = n * k / rates.memory_bytes_per_s;
  constexpr double kInPlace = 1.15, kCopied = 1.5, kWidened = 3.1, kTurned = 1.1;
  const double of_b = memory * (integers ? kCopied : kWidened) + (p.turned ? 0 : kTurned * memory);
  const bool in_place = integers && p.turned && p.m <= kFewRows;
  const double seconds = in_place ? std::max(kInPlace * memory, multiply) : of_b + multiply;
  return 1e3 * seconds / threads + 0.01;
}

Tiles prepare_tiles(const TilesProduct& p, const CpuGemmConfig& config, int threads) {
  const bool blocks = p.scales == Scales::kBlock;
  const GemmSumOrder& sums = blocks ? kBlockTiles : p.type == DType::kI8 ? kI8Tiles : kTileSums;
  return {gemm_blocked(*tiles_level(p.type, p.scales).code, config, sums, threads, p.k, false),
          p.turned, blocks};
}

std::size_t workspace_bytes(const Tiles& s, std::int64_t m, std::int64_t n, std::int64_t k) {
  return static_cast<std::size_t>(scales_floats(s, m, k)) * sizeof(float) +
         dlblas::workspace_bytes(s.blocked, s.turned ? n : m, s.turned ? m : n, k);
}

void run_tiles(const Tiles& s, const ScaledJob& job, const Context& context, void* workspace) {
  if (job.m == 0 || job.n == 0) return;
  auto* const scales = static_cast<float*>(workspace);
  if (s.blocks) gather_scales(job, scales);
  const TilesCall call{job, s.turned, scales, scales_pitch(job.m)};
  GemmJob product{};
  product.a = matrix_of(s.turned ? job.b : job.a, s.turned);
  product.b[0] = matrix_of(s.turned ? job.a : job.b, s.turned);
  product.m = s.turned ? job.n : job.m, product.n = s.turned ? job.m : job.n, product.k = job.k;
  run_blocked(s.blocked, product, &call, context, scales + scales_floats(s, job.m, job.k));
}

void append_tiles(std::vector<Implementation>& to, Scales scales) {
  static constexpr Scales kScales[] = {Scales::kChannel, Scales::kBlock};
  Implementation base;
  base.flags.deterministic = true;
  base.knobs = &tiles_table();
  base.constrain = constrain;
  base.heuristic = heuristic;
  base.estimate = [](const Query& q, const Config&) { return tiles_ms(q, product_of(q)); };
  base.prepare = prepare;
  for (Implementation& i :
       kernels::per_level(base, "cpu_",
                          {{Isa::kAvx512, source_hash<"ops/gemm/scaled/scaled_amx.cpp">(), nullptr,
                            nullptr, kernels::CpuUnit::kAmx}},
                          &kScales[static_cast<int>(scales)])) {
    i.same_bits = same_bits;
    to.push_back(i);
  }
}
#else
void append_tiles(std::vector<Implementation>&, Scales) {}
#endif

}  // namespace dlblas::gemm::scaled
