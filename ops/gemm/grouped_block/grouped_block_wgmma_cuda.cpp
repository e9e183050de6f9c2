// Block-scaled grouped products of e4m3 on Hopper's WGMMA: the supported problems, the tile chosen
// for an average group, and the launch. The copy engine sees pairs of codes.
// In: a Problem, later the Args of a call. Out: a Kernel of one step.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: grouped_block_wgmma.cuh,
// ops/gemm/grouped/grouped_wgmma.hpp, device/gemm/wgmma_codes.cuh.
#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "ops/gemm/grouped/grouped_wgmma.hpp"
#include "ops/gemm/grouped_block/grouped_block.hpp"
#include "ops/gemm/grouped_block/grouped_block_wgmma_config.hpp"

namespace dlblas::gemm {
namespace {

/// What the Problem fixes.
struct CodeTraits {
  GroupTraits groups;
  DType out;
};

struct Form : kernels::CudaForm<CodeTraits, GroupedBlockConfig> {
  static constexpr bool kHopper = true;
  static constexpr bool kDependent = true;
  // Bits repeat, but differ from those of cuda_mma, which takes what this form refuses.
  static constexpr bool kIsDeterministic = false;
  static constexpr const auto& kTiles = kGroupedBlockWgmmaTiles;

  static const GroupedOp& op_of(const Query& q) { return q.user<GroupedOp>(); }
  static const ConfigTable<Config>& table() {
    static const auto* knobs = new ConfigTable<Config>{field<&Config::tile>(
        "tile", {0, 1, 2, 3, 4}, {"128x128_deep", "128x128", "128x192", "64x128", "64x64"})};
    static_assert(kGroupedBlockWgmmaCount == 5);
    return *knobs;
  }
  static Traits traits(const Query& q, const Config&) {
    const TensorTraits& sizes = q.problem.tensors[kGroupedSizes];
    return {{op_of(q).kind, sizes.dtype, sizes.align_log2 >= 2},
            q.problem.tensors[kGroupedBlockResult].dtype};
  }
  static int bytes_of(const Query& q, int tile) {
    return kTiles[tile].shared_bytes(true, 0) + group_table_bytes(q.problem.dims[op_of(q).groups]);
  }
  static std::int32_t shared_bytes(const Query& q, const State& s) {
    return bytes_of(q, s.config.tile);
  }

  static Support supports(const Query& q) {
    const Problem& p = q.problem;
    const TensorTraits &a = p.tensors[kGroupedA], &weight = p.tensors[kGroupedB];
    if (a.dtype != DType::kF8E4M3)
      return Support::no("{} is e5m2: the instruction is built for e4m3", tensor(kGroupedA));
    if (const Support sizes = supports_grouped_wgmma(op_of(q), p); !sizes) return sizes;
    const bool plain = weight.layout == Layout::kContiguous ||
                       weight.layout == Layout::kRowStrided || weight.layout == Layout::kRowsOuter;
    if (!plain) return Support::no("{} is not contiguous along K", tensor(kGroupedB));
    for (const int i : {kGroupedA, kGroupedB})
      if (p.tensors[i].align_log2 < kAlignCap)
        return Support::no("rows of {} are aligned to {} bytes; 16 are needed", tensor(i),
                           std::int64_t{1} << p.tensors[i].align_log2);
    const std::int64_t k = p.dims[op_of(q).k];
    if (k % 2 != 0) return Support::no("K = {} is odd: codes are copied in pairs", k);
    for (const int i : {kGroupedAScale, kGroupedWeightScale})
      if (p.tensors[i].align_log2 < 2) return Support::no("{} is not aligned", tensor(i));
    return Support::yes();
  }
  static void constrain(const Query& q, Space& space) {
    std::uint32_t allowed = 0;
    for (int i = 0; i < kGroupedBlockWgmmaCount; ++i)
      if (bytes_of(q, i) <= q.device.shared_bytes_per_block) allowed |= 1u << i;
    space.require(table(), "shared_memory_fits", {"tile"},
                  [allowed](const Config& c) { return (allowed >> c.tile & 1u) != 0; });
  }
  /// A tile of 128 × 128 takes 0.41 µs per 128 of K (docs/notes/gemm.md, 8-bit codes).
  static double milliseconds(const Query& q, const Config& config) {
    const GemmWgmmaConfig& c = kTiles[config.tile];
    const double part = c.block_m == 128   ? (c.block_n > 128 ? 0.9 : 0.91)
                        : c.block_n == 128 ? 0.75
                                           : 0.45;
    // As in scaled_mm_block, six stages leave L1 too little for the rows' scales.
    const double deep = c.block_m == 128 && c.stages == 6 ? 0.01e-6 : 0;
    constexpr double kEnds = 1.4e-6;
    return grouped_wgmma_ms(q, op_of(q), c,
                            {part, 2 * unit_rates(q.device).half_flops, 1, kEnds, deep});
  }
  static Config preset(const Query& q) {
    return kernels::least_estimate<Form>(q, {kGroupedBlockWgmmaCount - 1});
  }
  static std::vector<KernelSource> sources(const Query&, const State& s) {
    return {{"ops/gemm/grouped_block/grouped_block_wgmma.cuh",
             text("dlblas::gemm::grouped_block_wgmma<", groups_literal(s.traits.groups),
                  ", static_cast<dlblas::DType>(", static_cast<int>(s.traits.out),
                  "), dlblas::gemm::GroupedBlockConfig{", s.config.tile, "}>"),
             s.shared_bytes}};
  }
  static int multiply(const Args& args, const Context& context, const Kernel& kernel, void*);
  static std::vector<StepFn> steps(const State&) { return {multiply}; }
};

int Form::multiply(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const State& s = kernel.load<State>();
  const auto& op = *static_cast<const GroupedOp*>(s.user);
  GroupedProduct p = grouped_product(op, args);  // rows begin at multiples of 16 codes
  p.a.row /= 2, p.a.group /= 2, p.b.col /= 2, p.b.group /= 2, p.k /= 2;
  const TensorView &rows = args.tensors[kGroupedAScale],
                   &blocks = args.tensors[kGroupedWeightScale];
  const auto finish = [&](GroupedWgmmaCall& call) {
    GemmOperand* const of = call.product.operands;
    of[0] = {rows.data, rows.strides[rows.rank - 2]};
    of[1] = {nullptr, rows.strides[rows.rank - 1]};
    of[2] = {blocks.data, blocks.strides[2]};
    of[3] = {nullptr, blocks.strides[1]};
    of[4] = {nullptr, rows.rank > 2 ? rows.strides[0] : 0};
    of[5] = {nullptr, blocks.strides[0]};
  };
  const GroupedWgmmaForm form = {
      &kTiles[s.config.tile], DType::kF16, s.traits.out, true, true, s.units,
      s.shared_bytes,         s.dependent};
  return multiply_groups(op, args, p, form, context, *kernel.entries[0], finish);
}

}  // namespace

Implementation grouped_block_wgmma(const GroupedOp& op) {
  return kernels::make_cuda<Form>(
      "cuda_wgmma", source_hash<"ops/gemm/grouped_block/grouped_block_wgmma_cuda.cpp">(), &op);
}

}  // namespace dlblas::gemm
