// Grouped products on Hopper's WGMMA: which problems it takes, which tile an average group
// suggests, and its launch: as many persistent blocks as multiprocessors, whatever the groups are.
// In: a Problem of f16 or bf16, later the Args of a call. Out: a Kernel of one step.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: grouped_wgmma.cuh.
#include <algorithm>
#include <cmath>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/gemm_wgmma.hpp"
#include "ops/gemm/grouped/grouped_cuda.hpp"
#include "ops/gemm/grouped/grouped_wgmma_config.hpp"
#include "ops/gemm/matmul/cuda/matmul_cuda.hpp"

namespace dlblas::gemm {
namespace {

/// The same matrix `elements` on.
Columns from_element(Columns c, std::int64_t elements, DType type) {
  c.data = static_cast<const char*>(c.data) + elements * size_of(type);
  return c;
}

bool one_pitch(const TensorTraits& t) {
  return t.layout == Layout::kContiguous || t.layout == Layout::kRowStrided;
}

struct Wgmma : kernels::CudaForm<GroupedTraits, GroupedConfig> {
  static constexpr std::int32_t kMinArch = 90;
  static constexpr bool kDependent = true;
  // Bits repeat, but are others than cuda_mma's, which takes what this one refuses.
  static constexpr bool kIsDeterministic = false;
  static constexpr const auto& kTiles = kGroupedWgmmaTiles;
  static constexpr std::int64_t kLongestChain = 16384;

  static const GroupedOp& op_of(const Query& q) { return q.user<GroupedOp>(); }
  static const ConfigTable<Config>& table() {
    static const ConfigTable<Config>* const knobs = [] {
      auto* labels = new std::vector<std::string>;  // live as long as the process
      std::vector<std::int64_t> values;
      for (int i = 0; i < kGroupedWgmmaCount; ++i) {
        values.push_back(i);
        labels->push_back(text(kTiles[i].block_m, "x", kTiles[i].block_n, "x", kTiles[i].block_k));
        for (int other = 0; other < i; ++other)  // in turn there, together here
          if ((*labels)[static_cast<std::size_t>(other)] == labels->back())
            labels->back() += "_together";
      }
      return new ConfigTable<Config>{
          field<&Config::tile>("tile", values, {labels->begin(), labels->end()})};
    }();
    return *knobs;
  }
  /// Of kDepth a chain is as long as a group, which may have all rows: sums become totals every
  /// 2,048, as in cuda_mma.
  static std::int32_t span(const Query& q) {
    const GroupedOp& op = op_of(q);
    return op.kind == GroupKind::kDepth && q.problem.dims[op.k] > kLongestChain ? 2048 : 0;
  }
  static Traits traits(const Query& q, const Config&) {
    Traits s = grouped_traits(op_of(q), q.problem, span(q));
    s.gemm.a_whole = s.gemm.b_whole = s.gemm.aligned = true;
    s.out.vector = s.out.aligned = true;
    return s;
  }
  static int bytes_of(const Query& q, int tile) {
    const bool by_depth = grouped_traits(op_of(q), q.problem, 0).gemm.b_by_depth;
    return kTiles[tile].shared_bytes(by_depth, 0) +
           group_table_bytes(q.problem.dims[op_of(q).groups]);
  }
  static bool fits(const Query& q, int tile) {
    const GemmWgmmaConfig& c = kTiles[tile];
    // Totals are as many registers again as sums.
    return bytes_of(q, tile) <= q.device.shared_bytes_per_block &&
           (span(q) == 0 || (c.sums() <= 96 && c.block_k <= 64));
  }
  static std::int32_t shared_bytes(const Query& q, const State& s) {
    return bytes_of(q, s.config.tile);
  }

  static Support supports(const Query& q) {
    constexpr std::int64_t kMax = (std::int64_t{1} << 31) - 1, kMaxGroups = 1024;
    constexpr std::int64_t kMaxTotals = std::int64_t{1} << 20;  // terms: 512 totals in f32
    const Problem& p = q.problem;
    const GroupedOp& op = op_of(q);
    const TensorTraits &a = p.tensors[kGroupedA], &b = p.tensors[kGroupedB];
    const TensorTraits& out = p.tensors[kGroupedOut];
    const std::int64_t m = p.dims[op.m], n = p.dims[op.n], k = p.dims[op.k],
                       groups = p.dims[op.groups];
    if (m == 0 || n == 0 || k == 0 || groups == 0) return Support::no("a dimension is zero");
    if (const Support operands = grouped_on_tensor_cores(op, p); !operands) return operands;
    if (!one_pitch(a)) return Support::no("rows of {} have no one pitch", tensor(kGroupedA));
    const bool by_depth = op.kind == GroupKind::kDepth;
    if (by_depth && !one_pitch(b))
      return Support::no("rows of {} have no one pitch", tensor(kGroupedB));
    if (!one_pitch(out) || out.align_log2 < kAlignCap)
      return Support::no("rows of {} have no one pitch of 16 bytes", tensor(kGroupedOut));
    const std::int64_t whole = 16 / size_of(out.dtype);
    if (n % whole != 0)
      return Support::no("N = {} is not a multiple of {}: rows of {} are no multiples of 16 bytes",
                         n, whole, tensor(kGroupedOut));
    if (!by_depth && k > kLongestChain)
      return Support::no("K is {}: sums are one chain here, of at most {}", k, kLongestChain);
    if (by_depth && k > kMaxTotals)
      return Support::no("{} rows: at most {} are added up", k, kMaxTotals);
    if (groups > kMaxGroups) return Support::no("{} groups: at most {}", groups, kMaxGroups);
    const std::int64_t rows = op.kind == GroupKind::kRows ? m : groups * m;
    const std::int64_t tiles = (rows / 64 + groups) * ((n + 127) / 128);
    if (rows > kMax || k > kMax || tiles > kMax)
      return Support::no("rows of all groups, or their tiles, are more than 31 bits count");
    return Support::yes();
  }
  static void constrain(const Query& q, Space& space) {
    std::uint32_t allowed = 0;
    for (int i = 0; i < kGroupedWgmmaCount; ++i)
      if (fits(q, i)) allowed |= 1u << i;
    space.require(table(), "shared_memory_fits", {"tile"},
                  [allowed](const Config& c) { return (allowed >> c.tile & 1u) != 0; });
  }

  /// Tiles one after the other on every multiprocessor; copies come out of L2; all weights once
  /// through memory. Within 15 % of an H200's times but for 64 × 128 of short groups, which are
  /// more (26 November 2026, docs/notes/gemm.md).
  static double milliseconds(const Query& q, const Config& config) {
    const GroupedOp& op = op_of(q);
    const GemmWgmmaConfig& c = kTiles[config.tile];
    const Rates unit = unit_rates(q.device);
    const double tiles = std::max(1.0, grouped_tiles(op, q.problem, c.block_m, c.block_n));
    const double depth = op.kind == GroupKind::kDepth ? grouped_average(op, q.problem)
                                                      : static_cast<double>(q.problem.dims[op.k]);
    const double part = c.block_m * c.block_n >= 128 * 192  ? 1.0
                        : c.block_m == 128                  ? 0.98
                        : c.block_m * c.block_n >= 64 * 256 ? 0.85
                                                            : 0.72;
    const double products = 2.0 * c.block_m * c.block_n * depth / (part * unit.half_flops);
    const double copies = 2.0 * (c.block_m + c.block_n) * depth / (1.33 * unit.alone_bytes_per_s);
    const double turns =
        std::max(std::ceil(tiles / q.device.units) * 0.5 + 0.5 * tiles / q.device.units, 1.0);
    constexpr double kEnds = 1.4e-6, kTurn = 0.3e-6, kReached = 0.85;
    const double ends = c.pingpong ? kEnds + turns * kTurn : turns * kEnds;
    const double memory = grouped_bytes(op, q.problem) / (kReached * memory_bytes_per_s(q.device));
    const double product = turns * std::max(products, copies) + ends;
    return 1e3 * (std::max(product, memory) + 0.1 * std::min(product, memory) + 3e-6);
  }
  static Config preset(const Query& q) {
    Space space(table());
    constrain(q, space);
    Config best{kGroupedWgmmaCount - 1};
    double best_ms = -1;
    for (std::int32_t i = 0; i < kGroupedWgmmaCount; ++i) {
      if (!space.broken_constraint(table().to_config(Config{i})).empty()) continue;
      const double ms = milliseconds(q, {i});
      if (best_ms < 0 || ms < best_ms) best = {i}, best_ms = ms;
    }
    return best;
  }

  static std::vector<KernelSource> sources(const Query&, const State& s) {
    return {{"ops/gemm/grouped/grouped_wgmma.cuh",
             text("dlblas::gemm::grouped_wgmma<", grouped_literal(s.traits),
                  ", dlblas::gemm::GroupedConfig{", s.config.tile, "}>"),
             s.shared_bytes}};
  }
  static int multiply(const Args& args, const Context& context, const Kernel& kernel, void*);
  static std::vector<StepFn> steps(const State&) { return {multiply}; }
};

int Wgmma::multiply(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const State& s = kernel.load<State>();
  const auto& op = *static_cast<const GroupedOp*>(s.user);
  const GemmWgmmaConfig& c = kTiles[s.config.tile];
  const DType type = s.traits.gemm.type, out_type = s.traits.out.type;
  const GroupedProduct p = grouped_product(op, args);
  const bool by_depth = op.kind == GroupKind::kDepth, plain_b = s.traits.gemm.b_by_depth;
  const std::int64_t rows = op.kind == GroupKind::kRows ? p.m : p.groups * p.m;
  // Rows of all groups lie at one pitch; a group's only row is a group away from the next.
  const std::int64_t out_pitch = p.m > 1 ? p.out.row : p.out.group;
  const Columns a = by_depth ? Columns{p.a.data, p.m, p.k, p.a.col}
                             : Columns{p.a.data, p.k, rows, p.m > 1 ? p.a.row : p.a.group};
  const Columns out{p.out.data, p.n, rows, out_pitch};
  Columns b = plain_b ? Columns{p.b.data, p.k, p.n, p.b.col} : Columns{p.b.data, p.n, p.k, p.b.row};
  const Columns all_of_b{b.data, b.rows, (by_depth ? 1 : p.groups) * b.cols, b.pitch};
  std::int64_t apart = p.b.group;
  const Columns o[] = {stand_in(a, type, context, 8), stand_in(out, out_type, context, 8)};
  for (const Columns& one : o)
    if (!one.data) return kNoMemory;
  if (o[0].data != a.data) copy_columns(a, o[0], type, context.stream);
  if (o[1].data != out.data) copy_columns(out, o[1], out_type, context.stream);  // rows of no group
  if (!b.fits() || (p.groups > 1 && apart < 0)) {
    const Columns to = packed(all_of_b, type, context, 8);
    if (!to.data) return kNoMemory;
    for (std::int64_t e = 0; e < all_of_b.cols / b.cols; ++e)
      copy_columns(from_element(b, e * apart, type),
                   from_element({to.data, b.rows, b.cols, to.pitch}, e * b.cols * to.pitch, type),
                   type, context.stream);
    b = {to.data, b.rows, b.cols, to.pitch}, apart = b.cols * to.pitch;
  }
  const auto wgmma_matrix = [](const Columns& m) {
    return kernels::WgmmaMatrix{m.data, m.rows, m.cols, m.pitch};
  };
  kernels::WgmmaMatrix b_map = wgmma_matrix(b);
  if (!by_depth) b_map.count = p.groups, b_map.apart = apart;
  const kernels::WgmmaProduct product = {.type = type,
                                         .out_type = out_type,
                                         .a = wgmma_matrix(o[0]),
                                         .b = {b_map, {}},
                                         .out = wgmma_matrix(o[1]),
                                         .a_by_depth = s.traits.gemm.a_by_depth,
                                         .b_by_depth = plain_b,
                                         .parts = 1,
                                         .m = by_depth ? p.m : rows,
                                         .n = p.n,
                                         .k = p.k};
  GroupedWgmmaCall call{};
  cuda::Launch how;
  if (const int code = kernels::prepare_wgmma(product, c, s.units, call.product, how)) return code;
  call.groups = grouped_gpu_params(op, args).groups;
  call.out = {const_cast<void*>(o[1].data), o[1].pitch, 1};
  const std::int64_t blocks = grouped_blocks(op, p.m, p.n, p.groups, c.block_m, c.block_n);
  how.grid.x = static_cast<unsigned>(std::min<std::int64_t>(blocks, s.units));
  how.shared_bytes = static_cast<unsigned>(s.shared_bytes);
  how.dependent = s.dependent;
  const int code = cuda::launch(*kernel.entries[0], how, call, context.stream);
  if (code == 0 && o[1].data != out.data) copy_columns(o[1], out, out_type, context.stream);
  return code;
}

}  // namespace

Implementation grouped_wgmma(const GroupedOp& op) {
  Implementation wgmma = kernels::make_cuda<Wgmma>(
      "cuda_wgmma", source_hash<"ops/gemm/grouped/grouped_wgmma_cuda.cpp">(), &op);
  wgmma.max_arch = wgmma.min_arch;  // the instruction is sm_90a's alone
  return wgmma;
}

}  // namespace dlblas::gemm
