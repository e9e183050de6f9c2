// Block-scaled grouped products of f8 on CPUs: each group is a separate scaled product, by the code
// of ops/gemm/scaled/ for the instruction set; for sums over a group's rows, by that of
// scaled_depth.hpp. In: a Problem, later the Args of a call. Out: a
// Kernel of one step. Numerics: a fixed order of sums.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: grouped_block_ref.hpp,
// ops/gemm/scaled/scaled_cpu.cpp.
#include <algorithm>

#include "core/element.hpp"
#include "core/integers.hpp"
#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/cpu_level.hpp"
#include "ops/gemm/grouped_block/grouped_block.hpp"
#include "ops/gemm/scaled/scaled_depth.hpp"
#include "ops/gemm/scaled/scaled_tiles.hpp"

namespace dlblas::gemm {
namespace {

constexpr std::int64_t kBlock = 128;
constexpr int kRows = 128;  // whose sums wait in the caches

struct LevelState {
  const GroupedOp* op;
  scaled::ScaledLevel level;
};

/// A group's matrix from `row` on; `turned`: its last dimension is the product's first.
scaled::ScaledMatrix matrix_of(const TensorView& t, std::int64_t group, std::int64_t row,
                               bool turned) {
  const std::int64_t *strides = t.strides + t.rank - 2,
                     at = (t.rank > 2 ? group * t.strides[0] : 0) + row * strides[0];
  return {static_cast<char*>(t.data) + at * size_of(t.dtype), strides[turned ? 1 : 0],
          strides[turned ? 0 : 1], t.dtype};
}

/// Rows [begin, end) of a group as a scaled product.
scaled::ScaledJob job_of(const GroupedOp& op, const GroupedProduct& p, const Args& args,
                         std::int64_t group, std::int64_t begin, std::int64_t end) {
  scaled::ScaledJob job{};
  job.a = matrix_of(args.tensors[kGroupedA], group, begin, false);
  job.b = matrix_of(args.tensors[kGroupedB], group, 0, true);
  job.a_scale = matrix_of(args.tensors[kGroupedAScale], group, begin, false);
  job.b_scale = matrix_of(args.tensors[kGroupedWeightScale], group, 0, true);
  job.out = matrix_of(args.tensors[op.out], group, begin, false);
  job.m = end - begin, job.n = p.n, job.k = p.k, job.blocks = true;
  job.values = scaled::code_values(job.a.type);
  return job;
}

/// The sums over rows [begin, end), a group's. A block's scale belongs to its place among all rows.
scaled::DepthJob depth_job_of(const GroupedOp& op, const GroupedProduct& p, const Args& args,
                              std::int64_t group, std::int64_t begin, std::int64_t end) {
  scaled::DepthJob job{};
  job.a = matrix_of(args.tensors[kGroupedA], 0, begin, true);
  job.b = matrix_of(args.tensors[kGroupedB], 0, begin, false);
  job.a_scale = matrix_of(args.tensors[kGroupedAScale], 0, begin / kBlock, true);
  job.b_scale = matrix_of(args.tensors[kGroupedWeightScale], 0, begin / kBlock, false);
  job.out = matrix_of(args.tensors[op.out], group, 0, false);
  job.m = p.m, job.n = p.n, job.k = end - begin, job.blocks = true;
  job.values = scaled::code_values(job.a.type);
  job.skipped = begin < end ? begin % kBlock : 0;
  return job;
}

/// Calls f(group, first row, one past the last row) for every group that has results.
template <typename F>
void each_group(const GroupedOp& op, const GroupedProduct& p, const Args& args, const F& f) {
  const TensorView& sizes = args.tensors[kGroupedSizes];
  const bool masked = op.kind == GroupKind::kMasked, by_depth = op.kind == GroupKind::kDepth;
  const auto limit = [&](std::int64_t at) {
    const auto v = static_cast<std::int64_t>(load_element(sizes, at * sizes.strides[0]));
    return std::clamp(v, std::int64_t{0}, by_depth ? p.k : p.m);
  };
  for (std::int64_t g = 0; g < p.groups; ++g) {
    const std::int64_t begin = masked ? 0 : limit(g), end = limit(masked ? g : g + 1);
    if (begin < end || by_depth) f(g, begin, std::max(begin, end));
  }
}

int step(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto& s = kernel.load<LevelState>();
  const GroupedProduct p = grouped_product(*s.op, args);
  each_group(*s.op, p, args, [&](std::int64_t g, std::int64_t begin, std::int64_t end) {
    if (s.op->kind == GroupKind::kDepth)
      scaled::run_level(s.level, depth_job_of(*s.op, p, args, g, begin, end), context, workspace);
    else
      scaled::run_level(s.level, job_of(*s.op, p, args, g, begin, end), context, workspace);
  });
  return 0;
}

Kernel prepare(const Query& q, const Config&) {
  const scaled::ScaledLevel level{kernels::code_of<scaled::ScaledRun>(q), kRows,
                                  std::max<int>(1, q.problem.threads)};
  return make_kernel({step}, LevelState{&kernels::op_of<GroupedOp>(q), level},
                     scaled::workspace_bytes(level));
}

double estimate(const Query& q, const Config&) {
  const auto& op = kernels::op_of<GroupedOp>(q);
  const Problem& p = q.problem;
  constexpr double kPart = 0.75, kWiden = 70;  // as in scaled_cpu.cpp
  const bool by_depth = op.kind == GroupKind::kDepth;
  const std::int64_t matrices = by_depth ? 1 : std::min(p.dims[op.groups], p.dims[op.m]);
  const auto codes =
      static_cast<double>(matrices) * static_cast<double>(p.dims[op.n] * p.dims[op.k]);
  const double operations = 2 * grouped_multiply_adds(op, p) / kPart + kWiden * codes;
  return 1e3 * launch_s(q.device) + kernels::rates_of(q).roofline_ms(std::max<double>(1, p.threads),
                                                                     grouped_bytes(op, p),
                                                                     operations, DType::kF32);
}

/// scaled::levels(), each with its code for a DepthJob.
std::vector<kernels::CpuLevel> depth_levels() {
  std::vector<kernels::CpuLevel> all = scaled::levels();
  for (kernels::CpuLevel& level : all) {
#if defined(DLBLAS_X86)
    level.code = level.isa == Isa::kAvx512 ? &avx512::kScaledDepthRun
                 : level.isa == Isa::kAvx2 ? &avx2::kScaledDepthRun
                                           : &baseline::kScaledDepthRun;
#else
    level.code = &baseline::kScaledDepthRun;
#endif
  }
  return all;
}

#if defined(DLBLAS_X86)
struct TilesState {
  const GroupedOp* op;
  scaled::Tiles tiles;
};

int tiles_step(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto& s = kernel.load<TilesState>();
  const GroupedProduct p = grouped_product(*s.op, args);
  each_group(*s.op, p, args, [&](std::int64_t g, std::int64_t begin, std::int64_t end) {
    scaled::run_tiles(s.tiles, job_of(*s.op, p, args, g, begin, end), context, workspace);
  });
  return 0;
}

scaled::TilesProduct tiles_product(const Query& q) {
  const Problem& p = q.problem;
  const auto& op = kernels::op_of<GroupedOp>(q);
  const TensorTraits& weight = p.tensors[kGroupedB];
  return {std::min(p.dims[op.m], static_cast<std::int64_t>(grouped_average(op, p))),
          p.dims[op.n],
          p.dims[op.k],
          weight.dtype,
          scaled::Scales::kBlock,
          weight.layout != Layout::kMatricesTransposed};
}

Kernel prepare_tiles(const Query& q, const Config&) {
  const Problem& p = q.problem;
  const auto& op = kernels::op_of<GroupedOp>(q);
  const scaled::TilesProduct product = tiles_product(q);
  const int threads = std::max<int>(1, p.threads);
  const scaled::Tiles tiles =
      scaled::prepare_tiles(product, scaled::tiles_config(product, threads), threads);
  return make_kernel({tiles_step}, TilesState{&op, tiles},
                     scaled::workspace_bytes(tiles, p.dims[op.m], product.n, product.k));
}

double estimate_tiles(const Query& q, const Config&) {
  const auto& op = kernels::op_of<GroupedOp>(q);
  return scaled::tiles_ms(q, tiles_product(q)) *
         std::max(1.0, static_cast<double>(q.problem.dims[op.groups]));
}
#endif

}  // namespace

Bound grouped_block_bound(const GroupedOp& op, const Problem& p) {
  const FloatTraits out = float_traits(p.tensors[op.out].dtype);
  const auto parts = static_cast<double>(ceil_div(p.dims[op.k], kBlock));
  return {.magnitude = 1 + kRounding,
          .value = out.eps / 2 * (1 + kRounding),
          .absolute = out.tiny + (parts + 4) * float_traits(DType::kF32).tiny};
}

std::vector<Implementation> grouped_block_cpu(const GroupedOp& op) {
  Implementation base;
  base.flags.deterministic = true;
  base.estimate = estimate;
  base.prepare = prepare;
  if (op.kind == GroupKind::kDepth) return kernels::per_level(base, "cpu_", depth_levels(), &op);
  std::vector<Implementation> all = kernels::per_level(base, "cpu_", scaled::levels(), &op);
#if defined(DLBLAS_X86)
  base.estimate = estimate_tiles;
  base.prepare = prepare_tiles;
  const char* const of_tiles = source_hash<"ops/gemm/scaled/scaled_amx.cpp">();
  const auto tiles = kernels::per_level(
      base, "cpu_", {{Isa::kAvx512, of_tiles, nullptr, nullptr, kernels::CpuUnit::kAmx}}, &op);
  all.insert(all.begin(), tiles.begin(), tiles.end());
#endif
  return all;
}

}  // namespace dlblas::gemm
