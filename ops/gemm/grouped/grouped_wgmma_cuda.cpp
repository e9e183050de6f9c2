// Grouped products on Hopper's WGMMA: the supported problems, the tile chosen for an average group,
// and the launch of at most one persistent block per multiprocessor, whatever the groups are.
// In: a Problem of f16 or bf16, later the Args of a call. Out: a Kernel of one step.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: grouped_wgmma.cuh.
#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/gemm_wgmma.hpp"
#include "ops/gemm/grouped/grouped_wgmma.hpp"
#include "ops/gemm/grouped/grouped_wgmma_config.hpp"

namespace dlblas::gemm {
namespace {

bool one_pitch(const TensorTraits& t) {
  return t.layout == Layout::kContiguous || t.layout == Layout::kRowStrided;
}

struct Wgmma : kernels::CudaForm<GroupedTraits, GroupedConfig> {
  static constexpr bool kHopper = true;
  static constexpr bool kDependent = true;
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
  /// Only for kDepth: other groups have one chain here.
  static std::int32_t span(const Query& q) {
    const GroupedOp& op = op_of(q);
    return op.kind == GroupKind::kDepth ? tensor_core_span(op, q.problem) : 0;
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
    // Totals take as many registers again as the sums.
    return bytes_of(q, tile) <= q.device.shared_bytes_per_block &&
           (span(q) == 0 || (c.sums() <= 96 && c.block_k <= 64));
  }
  static std::int32_t shared_bytes(const Query& q, const State& s) {
    return bytes_of(q, s.config.tile);
  }

  static Support supports(const Query& q) {
    constexpr std::int64_t kMaxTotals = std::int64_t{1} << 20;  // terms: 512 totals in f32
    const Problem& p = q.problem;
    const GroupedOp& op = op_of(q);
    const TensorTraits& b = p.tensors[kGroupedB];
    const std::int64_t k = p.dims[op.k];
    if (const Support sizes = supports_grouped_wgmma(op, p); !sizes) return sizes;
    if (const Support operands = grouped_on_tensor_cores(op, p); !operands) return operands;
    const bool by_depth = op.kind == GroupKind::kDepth;
    if (by_depth && !one_pitch(b))
      return Support::no("rows of {} are not at one pitch", tensor(kGroupedB));
    if (!by_depth && k > kLongestChain)
      return Support::no("K is {}: sums are one chain here, of at most {}", k, kLongestChain);
    if (by_depth && k > kMaxTotals)
      return Support::no("{} rows: at most {} are added up", k, kMaxTotals);
    return Support::yes();
  }
  /// Adds up as cuda_mma does, bit for bit (tests/test_same_bits_wgmma.py).
  static Support same_bits(const Query& q) {
    if (tensor_cores_take_any_batch(op_of(q), q.problem)) return Support::yes();
    return Support::no("another batch may have a layout that only cuda_fma takes");
  }
  static void constrain(const Query& q, Space& space) {
    std::uint32_t allowed = 0;
    for (int i = 0; i < kGroupedWgmmaCount; ++i)
      if (fits(q, i)) allowed |= 1u << i;
    space.require(table(), "shared_memory_fits", {"tile"},
                  [allowed](const Config& c) { return (allowed >> c.tile & 1u) != 0; });
  }

  /// Each multiprocessor runs tile after tile; copies come from L2; all weights cross memory once.
  /// Within 15 % of the times on an H200, except 64 × 128 tiles of short groups, which take longer
  /// (26 November 2026, docs/notes/gemm.md). Gathered rows: what their copies take at least.
  static double milliseconds(const Query& q, const Config& config) {
    const GroupedOp& op = op_of(q);
    const GemmWgmmaConfig& c = kTiles[config.tile];
    const double part = c.block_m * c.block_n >= 128 * 192  ? 1.0
                        : c.block_m == 128                  ? 0.98
                        : c.block_m * c.block_n >= 64 * 256 ? 0.85
                                                            : 0.72;
    constexpr double kEnds = 1.4e-6, kTurn = 0.3e-6;
    const bool hides = c.pingpong;
    const double stage = op.gathers() ? 0.1e-6 + 3.2e-9 * c.block_m * c.steps() : 0;
    return grouped_wgmma_ms(q, op, c,
                            {part, unit_rates(q.device).half_flops, 2, hides ? kTurn : kEnds,
                             hides ? kEnds : 0, stage});
  }
  static Config preset(const Query& q) {
    return kernels::least_estimate<Wgmma>(q, {kGroupedWgmmaCount - 1});
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
  const GroupedWgmmaForm form = {&kTiles[s.config.tile],   s.traits.gemm.type,
                                 s.traits.out.type,        s.traits.gemm.a_by_depth,
                                 s.traits.gemm.b_by_depth, s.units,
                                 s.shared_bytes,           s.dependent};
  return multiply_groups(op, args, grouped_product(op, args), form, context, *kernel.entries[0],
                         [](GroupedWgmmaCall&) {});
}

}  // namespace

Implementation grouped_wgmma(const GroupedOp& op) {
  return kernels::make_cuda<Wgmma>("cuda_wgmma",
                                   source_hash<"ops/gemm/grouped/grouped_wgmma_cuda.cpp">(), &op);
}

}  // namespace dlblas::gemm
