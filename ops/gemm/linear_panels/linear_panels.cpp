// linear_panels: a linear layer whose weight was packed beforehand (weight_panels). matmul's loops,
// epilogue and order of sums, and so the bits of its blocked forms; b is read where it lies, or
// widened. In: a Problem, later the Args of a call. Out: a Kernel of one step.
// Read next: ../panels/panels.hpp, cpu/gemm/panels.hpp, ../matmul/cpu/matmul_cpu.cpp.
#include <algorithm>
#include <cstring>

#include "core/error.hpp"
#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "cpu/gemm/loops.hpp"
#include "kernels/product.hpp"
#include "ops/gemm/matmul/matmul.hpp"
#include "ops/gemm/panels/panels.hpp"

namespace dlblas::gemm {
namespace {

// Letters, tensors and scalars are matmul's, in its order; b is in panels.

/// matmul's, of the weight as it was.
void reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows, OracleOut* out) {
  const TensorView& panels = args.tensors[kB];
  const std::int64_t n = args.letters[kN], k = args.letters[kK], size = size_of(panels.dtype);
  std::vector<char> weight(static_cast<std::size_t>(n * k * size));
  for (std::int64_t row = 0; row < n; ++row) {
    for (std::int64_t depth = 0; depth < k; ++depth) {
      const std::int64_t at = place_in_panels(panels.dtype, n, k, row, depth);
      const std::int64_t element = at / k * panels.strides[0] + at % k * panels.strides[1];
      std::memcpy(weight.data() + (row * k + depth) * size,
                  static_cast<const char*>(panels.data) + element * size,
                  static_cast<std::size_t>(size));
    }
  }
  Args whole = args;
  TensorView& b = whole.tensors[kB];
  b.data = weight.data();
  b.shape[0] = k, b.shape[1] = n, b.strides[0] = 1, b.strides[1] = k;
  matmul_reference(whole, rows, num_rows, out);
}

/// A slice of panels is no weight in panels. One whose rows are adjacent cannot be told apart.
void check_is_whole(const Args& args) {
  const TensorView& panels = args.tensors[kB];
  const std::int64_t n = args.letters[kN], k = args.letters[kK];
  const bool rows = n <= 1 || panels.strides[0] == k, columns = k <= 1 || panels.strides[1] == 1;
  if (n == 0 || k == 0 || (rows && columns)) return;
  const char* expected = "all of what weight_panels returned";
  throw Error(ErrorKind::kArgument,
              text("linear_panels: panels is not contiguous; expected ", expected,
                   ", got a slice or a transposed view; slice the weight, then pack it"),
              {"linear_panels", "panels", expected, "a slice or a transposed view"});
}

kernels::BlockedProduct product_of(const Problem& p) {
  return {p.dims[kM], p.dims[kN], p.dims[kK], 1, &p.tensors[kA]};
}

Support supports(const Query& q) {
  const Problem& p = q.problem;
  if (!is_whole(p, kB, kN, kK))
    return Support::no("{} is not contiguous, as weight_panels returned it", tensor(kB));
  return kernels::supports_blocked(q, product_of(p), kA);
}

/// So few that reading the weight is a good part of the time.
constexpr std::int64_t kFewRows = 64;

/// The tile that takes the least time for so many rows. Eight sums at a time wait for each other.
int best_tile(const kernels::ProductLevel& level, std::int64_t rows) {
  const double load = level.multiplier == kernels::Multiplier::kFloats ? 0.3 : 0.2;
  if (rows <= level.code->blocks->tiles[0].m) return 0;
  int found = 0;
  double least = 0;
  for (int i = 0; i < level.code->blocks->num_tiles; ++i) {
    const GemmTile tile = level.code->blocks->tiles[i];
    const double vectors = 1.0 * tile.n / level.lanes, sums = tile.m * vectors;
    const auto whole = static_cast<double>(round_up(std::max<std::int64_t>(1, rows), tile.m));
    const double time =
        whole * (1 + load * (1.0 / tile.m + 1 / vectors)) / std::min(1.0, sums / 12);
    if (i == 0 || time < least) least = time, found = i;
  }
  return found;
}

Config heuristic(const Query& q) {
  const kernels::BlockedProduct p = product_of(q.problem);
  const auto& level = kernels::code_of<kernels::ProductLevel>(q);
  CpuGemmConfig c = kernels::blocked_config(q, kernels::default_blocked(q, p));
  // One thread of a Zen 5, November 2026, 4096×4096, ms. f32: 512 rows 70.8 (8 rows of a in place
  // 72.9), 16 rows 3.2 in place, 3.3 packed. bf16 in pairs: 512 rows 37.0 with blocks of 96×256,
  // 38.1 with 1024 columns; 16 rows 1.67 where a is packed, 1.85 where not.
  const bool few = p.m <= kFewRows, pairs = level.multiplier != kernels::Multiplier::kFloats;
  c.tile = best_tile(level, p.m);
  c.block_k = kPanelDepth;
  c.block_n = few || !pairs ? 1024 : 256;
  if (few == pairs) c.pack_a = true;
  return kernels::fit_blocked(q, p, c);
}

double estimate(const Query& q, const Config& config) {
  const Problem& p = q.problem;
  const auto& level = kernels::code_of<kernels::ProductLevel>(q);
  const GemmTile tile = level.code->blocks->tiles[kernels::blocked_config(q, config).tile];
  const auto threads = static_cast<double>(std::max<int>(1, p.threads));
  const Rates rates = kernels::rates_of(q);
  const double sums = static_cast<double>(round_up(p.dims[kM], tile.m)) *
                      static_cast<double>(round_up(p.dims[kN], tile.n));
  const double multiply = 2 * sums * static_cast<double>(p.dims[kK]) /
                          (rates.f32_flops * kernels::speed_of(level.multiplier) * threads);
  constexpr double kReading = 0.92;  // of what rows in place reach, 1×14336×4096, Zen 5
  const double rate = kReading * rates.memory_bytes_per_s;
  const double memory = bytes_of_b(p) / (std::min(threads, 4.0) * rate);
  return 1e3 * std::max(memory, multiply) + 0.005;
}

int step(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const MatmulParams p = matmul_params(args);
  GemmJob job = product_of(p);
  job.panels = p.b.data;
  job.b[0] = {p.b.data, 1, p.k, p.b.type};  // columns that fill no panel are as they were
  run_blocked(kernel.load<GemmBlocked>(), job, &p, context, workspace);
  return 0;
}

Kernel prepare(const Query& q, const Config& config) {
  const Problem& p = q.problem;
  const TensorTraits& out = p.tensors[kOut];
  const bool holds_sums = out.dtype == DType::kF32 &&
                          (out.layout == Layout::kContiguous || out.layout == Layout::kRowStrided);
  GemmBlocked s = kernels::prepare_blocked(q, product_of(p), config, sums_of(p), holds_sums);
  s.panels = p.tensors[kB].dtype;
  // AVX2 has too few registers to widen pairs beside a large tile: 128×4096×4096 on a Zen 5 takes
  // 48 ms that way, 37 from f32.
  const auto& level = kernels::code_of<kernels::ProductLevel>(q);
  s.unpacks = has_panel_pairs(s.panels) && level.multiplier == kernels::Multiplier::kFloats &&
              level.lanes < 16 && p.dims[kM] > kFewRows;
  return make_kernel({step}, s, workspace_bytes(s, p.dims[kM], p.dims[kN], p.dims[kK]));
}

using kernels::Multiplier, kernels::ProductLevel;

/// Loops over panels with matmul's epilogue; lives as long as the process.
const ProductLevel& level_of(const GemmBlocks& blocks, const GemmCode& matmul, int lanes,
                             Multiplier multiplier = Multiplier::kFloats) {
  return *new ProductLevel{new GemmCode{&blocks, nullptr, matmul.epilogue}, lanes, 1, multiplier};
}

std::vector<Implementation> implementations() {
  Implementation base;
  base.flags.deterministic = true;
  base.supports = supports;
  base.same_bits = [](const Query& q) {
    return kernels::bits_beside_units(q, q.problem.tensors[kA].dtype);
  };
  base.constrain = [](const Query& q, Space& space) {
    kernels::constrain_blocked(q, product_of(q.problem), space);
  };
  base.heuristic = heuristic;
  base.estimate = estimate;
  base.prepare = prepare;
  const auto level = [](Isa isa, const char* hash, const ProductLevel& of,
                        kernels::CpuUnit unit = kernels::CpuUnit::kNone) {
    const bool of_unit = of.multiplier != Multiplier::kFloats;
    return kernels::CpuLevel{isa, hash, &of, &kernels::blocked_table(of), unit, of_unit};
  };
  // The loops and the epilogue are in the sources of matmul's levels.
  const std::vector<kernels::CpuLevel> levels = {
#if defined(DLBLAS_X86)
    level(Isa::kAvx512, source_hash<"ops/gemm/matmul/cpu/matmul_amx.cpp">(),
          level_of(avx512::kAmxPanelBlocks, avx512::kMatmulAmx, 16, Multiplier::kTiles),
          kernels::CpuUnit::kAmx),
    level(Isa::kAvx512, source_hash<"ops/gemm/matmul/cpu/matmul_avx512bf16.cpp">(),
          level_of(avx512::kBf16PanelBlocks, avx512::kMatmulBf16, 16, Multiplier::kPairs),
          kernels::CpuUnit::kAvx512Bf16),
    level(Isa::kAvx512, source_hash<"ops/gemm/matmul/cpu/matmul_avx512.cpp">(),
          level_of(avx512::kPanelBlocks, avx512::kMatmulCode, 16)),
    level(Isa::kAvx2, source_hash<"ops/gemm/matmul/cpu/matmul_avx2.cpp">(),
          level_of(avx2::kPanelBlocks, avx2::kMatmulCode, 8)),
#endif
    level(Isa::kBaseline, source_hash<"ops/gemm/matmul/cpu/matmul_baseline.cpp">(),
          level_of(baseline::kPanelBlocks, baseline::kMatmulCode, 4))
  };
  return kernels::per_level(base, "cpu_", levels);
}

}  // namespace

OperatorDef linear_panels();
OperatorDef linear_panels() {
  OperatorDef def;
  def.family = "gemm";
  def.schema =
      "linear_panels(x: f[*M, K], panels: like(x)[N, K], "
      "activation: \"\"|\"relu\"|\"leaky_relu\"|\"gelu\"|\"silu\" = \"\", *, "
      "bias: like(x)|f32[N]?, out_dtype: dtype(f) = none) "
      "-> y: out_dtype|like(x)[*M, N] where M: bucket(tokens)";
  def.formula = "y = act(x · weightᵀ + bias), panels = weight_panels(weight)";
  def.letters = {"M", "K", "N"};
  def.reference = reference;
  def.bound = matmul_bound;
  def.check = [](const Args& args) {
    check_is_whole(args);
    kernels::check_flat_rows(args, {kA, kOut});
  };
  def.work_per_row = [](const Problem& p) {
    return static_cast<double>(p.dims[kK]) * static_cast<double>(p.dims[kN]);
  };
  def.implementations = implementations();
  return def;
}

}  // namespace dlblas::gemm
