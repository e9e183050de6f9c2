// The host side of block-scaled grouped products of f8 on GPUs. The grid covers any division into
// groups. Flow: call > validate > [select] > [compile] > [launch].
// Read next: grouped_block.cuh.
#include <algorithm>
#include <utility>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "ops/gemm/grouped/grouped_cuda.hpp"
#include "ops/gemm/grouped_block/grouped_block.hpp"
#include "ops/gemm/grouped_block/grouped_block_config.hpp"

namespace dlblas::gemm {
namespace {

bool is_aligned(const TensorTraits& t, int bytes) { return (1 << t.align_log2) >= bytes; }
bool rows_are_plain(const TensorTraits& t) {
  return t.layout == Layout::kContiguous || t.layout == Layout::kRowStrided ||
         t.layout == Layout::kRowsOuter || t.layout == Layout::kRowsBroadcast;
}
bool lies_along_rows(const TensorTraits& t) { return t.layout == Layout::kTransposed; }

struct Form : kernels::CudaForm<GroupedBlockTraits, GroupedBlockConfig> {
  static constexpr const auto& kTiles = kGroupedBlockTiles;

  static const GroupedOp& op_of(const Query& q) { return q.user<GroupedOp>(); }
  static bool by_depth(const Query& q) { return op_of(q).kind == GroupKind::kDepth; }
  static const ConfigTable<Config>& table() {
    static const auto* knobs = new ConfigTable<Config>{
        field<&Config::tile>("tile", {0, 1, 2}, {"64x64", "32x128", "16x128"})};
    static_assert(kGroupedBlockCount == 3);
    return *knobs;
  }
  static Support supports(const Query& q) { return grouped_fits_grid(op_of(q), q.problem); }

  static Traits traits(const Query& q, const Config&) {
    const Problem& p = q.problem;
    const TensorTraits &a = p.tensors[kGroupedA], &weight = p.tensors[kGroupedB];
    const TensorTraits &sizes = p.tensors[kGroupedSizes], &out = p.tensors[kGroupedBlockResult];
    Traits s{};
    s.type = a.dtype;
    s.groups = {op_of(q).kind, sizes.dtype, is_aligned(sizes, 4)};
    s.out = {out.dtype, false, is_aligned(out, size_of(out.dtype))};
    s.out.vector = is_aligned(out, 2 * size_of(out.dtype)) && rows_are_plain(out) &&
                   (out.layout != Layout::kContiguous || p.dims[op_of(q).n] % 2 == 0);
    const bool runs =
        by_depth(q) ? lies_along_rows(a) && lies_along_rows(weight)
                    : rows_are_plain(a) && rows_are_plain(weight) && p.dims[op_of(q).k] % 16 == 0;
    s.whole = runs && is_aligned(a, 16) && is_aligned(weight, 16);
    s.aligned_scales =
        is_aligned(p.tensors[kGroupedAScale], 4) && is_aligned(p.tensors[kGroupedWeightScale], 4);
    return s;
  }
  /// A third of matmul's mma.sync rate, since codes are widened on the way; not measured yet.
  static double milliseconds(const Query& q, const Config& config) {
    const GroupedOp& op = op_of(q);
    const GroupedBlockTile& c = kTiles[config.tile];
    const double tiles = std::max(1.0, grouped_tiles(op, q.problem, c.block_m, c.block_n));
    const double depth =
        by_depth(q) ? grouped_average(op, q.problem) : static_cast<double>(q.problem.dims[op.k]);
    const double rate = (c.block_m == 64 ? 0.25 : 0.15) * unit_rates(q.device).half_flops / 2;
    const double turns = std::max(1.0, tiles / q.device.units);
    const double products = turns * (depth + 128) * c.block_m * c.block_n / rate;
    constexpr double kReached = 0.6;  // of memory's rate; not measured yet
    const double memory = grouped_bytes(op, q.problem) / (kReached * memory_bytes_per_s(q.device));
    return 1e3 * (std::max(products, memory) + 0.1 * std::min(products, memory) + 5e-6);
  }
  static Config preset(const Query& q) {
    Config best{0};
    const bool whole = traits(q, {}).whole;
    for (std::int32_t i = 1; i < kGroupedBlockCount; ++i) {
      // Spills a word for sm_80: calls have few registers. Where rows are terms, runs may be calls.
      if (i == 2 && (!whole || by_depth(q))) continue;
      if (milliseconds(q, {i}) < milliseconds(q, best)) best = {i};
    }
    return best;
  }
  static std::vector<KernelSource> sources(const Query&, const State& s);

  static GroupedBlockParams launch(const State& s, const Args& args, void*, cuda::Launch& how) {
    const auto& op = *static_cast<const GroupedOp*>(s.user);
    const GroupedBlockTile& tile = kTiles[s.config.tile];
    const GroupedGpuParams shared = grouped_gpu_params(op, args);
    GroupedBlockParams p{};
    p.gemm = shared.gemm, p.epilogue = {shared.epilogue.out}, p.groups = shared.groups;
    const TensorView &rows = args.tensors[kGroupedAScale],
                     &blocks = args.tensors[kGroupedWeightScale];
    p.a_scale = rows.data, p.weight_scale = blocks.data;
    p.a_scale_group = rows.rank > 2 ? rows.strides[0] : 0;
    p.a_scale_row = rows.strides[rows.rank - 2], p.a_scale_col = rows.strides[rows.rank - 1];
    p.weight_scale_group = blocks.rank > 2 ? blocks.strides[0] : 0;
    p.weight_scale_row = blocks.strides[blocks.rank - 2];
    p.weight_scale_col = blocks.strides[blocks.rank - 1];
    if (op.kind == GroupKind::kDepth) {
      std::swap(p.a_scale_row, p.a_scale_col);
      std::swap(p.weight_scale_row, p.weight_scale_col);
    }
    how.grid.x = static_cast<unsigned>(
        grouped_blocks(op, p.gemm.m, p.gemm.n, p.groups.groups, tile.block_m, tile.block_n));
    how.block.x = kGroupedBlockThreads;
    return p;
  }
};

std::vector<KernelSource> Form::sources(const Query&, const State& s) {
  const Traits& t = s.traits;
  return {{"ops/gemm/grouped_block/grouped_block.cuh",
           text("dlblas::gemm::grouped_block<dlblas::gemm::GroupedBlockTraits{",
                "static_cast<dlblas::DType>(", static_cast<int>(t.type), "), ",
                groups_literal(t.groups), ", ", out_literal(t.out), ", ",
                t.whole ? "true" : "false", ", ", t.aligned_scales ? "true" : "false",
                "}, dlblas::gemm::GroupedBlockConfig{", s.config.tile, "}>")}};
}

}  // namespace

Implementation grouped_block_cuda(const GroupedOp& op) {
  return kernels::make_cuda<Form>(
      "cuda_mma", source_hash<"ops/gemm/grouped_block/grouped_block_cuda.cpp">(), &op);
}

}  // namespace dlblas::gemm
