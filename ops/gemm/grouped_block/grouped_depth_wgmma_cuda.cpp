// Sums of e4m3 codes over the rows of groups on Hopper's WGMMA: the supported problems, the tile
// chosen for an average group, and the launches: of a step that places codes along the rows, if
// they do not lie so at whole 16 bytes, and of at most one persistent block per multiprocessor.
// In: a Problem, later the Args of a call. Out: a Kernel of two steps.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: grouped_depth_wgmma.cuh,
// device/gemm/wgmma_depth_codes.cuh.
#include <algorithm>
#include <cmath>

#include "core/integers.hpp"
#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/gemm_wgmma.hpp"
#include "ops/gemm/grouped/grouped_cuda.hpp"
#include "ops/gemm/grouped/grouped_wgmma.hpp"
#include "ops/gemm/grouped_block/grouped_block.hpp"
#include "ops/gemm/grouped_block/grouped_depth_wgmma_config.hpp"
#include "ops/gemm/matmul/cuda/matmul_cuda.hpp"

namespace dlblas::gemm {
namespace {

/// What the Problem fixes. placed_a, placed_b: whether the first step places the operand's codes.
struct DepthTraits {
  GroupTraits groups;
  DType out;
  bool placed_a, placed_b;
};

bool lies_along(const TensorTraits& t) { return t.layout == Layout::kTransposed; }
bool is_placed(const TensorTraits& t) { return !lies_along(t) || t.align_log2 < kAlignCap; }

struct Form : kernels::CudaForm<DepthTraits, GroupedBlockConfig> {
  static constexpr bool kHopper = true;
  static constexpr bool kDependent = true;
  // Bits repeat, but differ from those of cuda_mma, which takes what this form refuses.
  static constexpr bool kIsDeterministic = false;
  static constexpr const auto& kTiles = kGroupedDepthTiles;

  static const GroupedOp& op_of(const Query& q) { return q.user<GroupedOp>(); }
  static const ConfigTable<Config>& table() {
    static const auto* knobs = new ConfigTable<Config>{
        field<&Config::tile>("tile", {0, 1, 2, 3}, {"128x192", "128x128", "64x128", "64x64"})};
    static_assert(kGroupedDepthCount == 4);
    return *knobs;
  }
  static Traits traits(const Query& q, const Config&) {
    const TensorTraits* const t = q.problem.tensors;
    const TensorTraits& sizes = t[kGroupedSizes];
    return {{op_of(q).kind, sizes.dtype, sizes.align_log2 >= 2},
            t[kGroupedBlockResult].dtype,
            is_placed(t[kGroupedA]),
            is_placed(t[kGroupedB])};
  }
  static std::int32_t shared_bytes(const Query& q, const State& s) {
    return grouped_depth_bytes(s.config.tile, q.problem.dims[op_of(q).groups]);
  }
  /// Elements from column to column of placed codes.
  static std::int64_t pitch_of(std::int64_t terms) { return round_up(terms, kPlacedCodes); }
  static std::size_t room_of(bool placed, std::int64_t width, std::int64_t terms) {
    return placed ? static_cast<std::size_t>(round_up(width * pitch_of(terms), 256)) : 0;
  }
  /// Bytes of the placed scales of `width` columns.
  static std::size_t scale_room_of(std::int64_t width, std::int64_t terms) {
    const std::int64_t blocks = ceil_div(terms, std::int64_t{kDepthBlock});
    return static_cast<std::size_t>(round_up(4 * blocks * placed_scale_pitch(width), 256));
  }
  static std::size_t code_bytes(const Query& q, const Traits& traits) {
    const GroupedOp& op = op_of(q);
    const std::int64_t* const dims = q.problem.dims;
    return room_of(traits.placed_a, dims[op.m], dims[op.k]) +
           room_of(traits.placed_b, dims[op.n], dims[op.k]);
  }
  static std::size_t workspace_bytes(const Query& q, const State& s) {
    const GroupedOp& op = op_of(q);
    const std::int64_t* const dims = q.problem.dims;
    return code_bytes(q, s.traits) + scale_room_of(dims[op.m], dims[op.k]) +
           scale_room_of(dims[op.n], dims[op.k]);
  }

  static Support supports(const Query& q) {
    const Problem& p = q.problem;
    if (p.tensors[kGroupedA].dtype != DType::kF8E4M3)
      return Support::no("{} is e5m2: the instruction is built for e4m3", tensor(kGroupedA));
    for (const int i : {kGroupedA, kGroupedB}) {
      const Layout layout = p.tensors[i].layout;
      if (!lies_along(p.tensors[i]) && layout != Layout::kContiguous &&
          layout != Layout::kRowStrided)
        return Support::no("neither rows nor columns of {} are contiguous", tensor(i));
    }
    if (const Support sizes = supports_grouped_result(op_of(q), p); !sizes) return sizes;
    for (const int i : {kGroupedAScale, kGroupedWeightScale})
      if (p.tensors[i].align_log2 < 2) return Support::no("{} is not aligned", tensor(i));
    return Support::yes();
  }
  static void constrain(const Query& q, Space& space) {
    const std::int64_t groups = q.problem.dims[op_of(q).groups];
    std::uint32_t allowed = 0;
    for (int i = 0; i < kGroupedDepthCount; ++i)
      if (grouped_depth_bytes(i, groups) <= q.device.shared_bytes_per_block) allowed |= 1u << i;
    space.require(table(), "shared_memory_fits", {"tile"},
                  [allowed](const Config& c) { return (allowed >> c.tile & 1u) != 0; });
  }
  /// A group has a part of one block more than its terms fill, on average. Within 6 % of the times
  /// of equal groups on an H200 (30 November 2026, docs/notes/gemm.md).
  static double milliseconds(const Query& q, const Config& config) {
    const GroupedOp& op = op_of(q);
    const GemmWgmmaConfig& c = kTiles[config.tile];
    const Traits s = traits(q, config);
    const double part = c.block_n > 128    ? 0.7
                        : c.block_m == 128 ? 0.6
                        : c.block_n == 128 ? 0.5
                                           : 0.35;
    constexpr double kEnds = 1.4e-6;
    const double of_block =
        2.0 * c.block_m * c.block_n * kDepthBlock / (part * 2 * unit_rates(q.device).half_flops);
    const double product = grouped_wgmma_ms(
        q, op, c, {part, 2 * unit_rates(q.device).half_flops, 1, kEnds + of_block, 0});
    const auto placed = static_cast<double>(code_bytes(q, s));
    constexpr double kReached = 0.7;  // of memory's rate, by the first step
    return product + 1e3 * (2 * placed / (kReached * memory_bytes_per_s(q.device)) + 4e-6);
  }
  static Config preset(const Query& q) {
    return kernels::least_estimate<Form>(q, {kGroupedDepthCount - 1});
  }
  static std::vector<KernelSource> sources(const Query&, const State& s) {
    return {{"ops/gemm/grouped_block/grouped_depth_wgmma.cuh",
             text("dlblas::gemm::grouped_depth_wgmma<", groups_literal(s.traits.groups),
                  ", static_cast<dlblas::DType>(", static_cast<int>(s.traits.out),
                  "), dlblas::gemm::GroupedBlockConfig{", s.config.tile, "}>"),
             s.shared_bytes},
            {"ops/gemm/grouped_block/grouped_depth_place.cuh",
             text("dlblas::gemm::grouped_depth_place<", kPlaceThreads, ">")}};
  }
  static int multiply(const Args& args, const Context& context, const Kernel& kernel,
                      void* workspace);
  static std::vector<StepFn> steps(const State&) { return {multiply}; }
};

/// An operand's codes as the copy engine reads them, and how they get there.
struct Operand {
  Columns codes;
  PlaceCodes place{};
  std::int64_t blocks = 0;

  /// `from`: its rows are columns of the product. `room`: for placed codes.
  Operand(const GroupedMatrix& from, std::int64_t terms, std::int64_t width, bool placed,
          void* room, const Context& context)
      : codes{from.data, terms, width, from.row} {
    const bool along = from.col == 1 && terms > 1;
    if (!placed && codes.fits()) return;
    const std::int64_t pitch = Form::pitch_of(terms);
    // A reversed or overlapping view has the layout class of a plain one.
    if (!placed) room = context.alloc(context.self, static_cast<std::size_t>(width * pitch), 256);
    place = {static_cast<const unsigned char*>(from.data),
             static_cast<unsigned char*>(room),
             along ? from.row : from.col,
             pitch,
             terms,
             width,
             along};
    blocks = ceil_div(terms, kPlacedCodes) * ceil_div(width, kPlacedCodes);
    codes = {room, terms, width, pitch};
  }
  kernels::WgmmaMatrix map() const { return {codes.data, codes.rows, codes.cols, codes.pitch}; }
};

/// An operand's scales, a row a block, to `room`.
PlaceScales placed_scales(const TensorView& from, bool in_fours, void* room) {
  return {static_cast<const float*>(from.data),
          static_cast<float*>(room),
          from.strides[0],
          from.strides[1],
          placed_scale_pitch(from.shape[1]),
          from.shape[0],
          from.shape[1],
          in_fours};
}

int place(const Operand& a, const Operand& b, const PlaceScales& of_a, const PlaceScales& of_b,
          const cuda::Function& kernel, const Context& context) {
  const auto blocks = [](const PlaceScales& x) {
    return ceil_div(x.blocks, std::int64_t{kPlacedScales}) * (x.to_pitch / kPlacedCodes);
  };
  PlaceCall call{a.place, b.place, of_a, of_b, {a.blocks, b.blocks, blocks(of_a), blocks(of_b)}};
  for (int i = 1; i < 4; ++i) call.ends[i] += call.ends[i - 1];
  cuda::Launch how;
  how.grid.x = static_cast<unsigned>(call.ends[3]);
  how.block.x = kPlaceThreads;
  how.dependent = true;
  return cuda::launch(kernel, how, call, context.stream);
}

int Form::multiply(const Args& args, const Context& context, const Kernel& kernel,
                   void* workspace) {
  const State& s = kernel.load<State>();
  const auto& op = *static_cast<const GroupedOp*>(s.user);
  const GemmWgmmaConfig& c = kTiles[s.config.tile];
  const GroupedProduct p = grouped_product(op, args);
  const std::int64_t rows = p.groups * p.m;
  auto* const room = static_cast<char*>(workspace);
  const Operand a(p.a, p.k, p.m, s.traits.placed_a, room, context);
  const GroupedMatrix by_columns{p.b.data, p.b.group, p.b.col, p.b.row};
  const Operand b(by_columns, p.k, p.n, s.traits.placed_b,
                  room + room_of(s.traits.placed_a, p.m, p.k), context);
  const Columns out{p.out.data, p.n, rows, p.m > 1 ? p.out.row : p.out.group};
  const Columns to = stand_in(out, s.traits.out, context, 8);
  if (!a.codes.data || !b.codes.data || !to.data) return kNoMemory;
  char* const scales =
      room + room_of(s.traits.placed_a, p.m, p.k) + room_of(s.traits.placed_b, p.n, p.k);
  const PlaceScales of_a = placed_scales(args.tensors[kGroupedAScale], false, scales);
  const PlaceScales of_b =
      placed_scales(args.tensors[kGroupedWeightScale], true, scales + scale_room_of(p.m, p.k));
  if (const int code = place(a, b, of_a, of_b, *kernel.entries[1], context)) return code;
  const kernels::WgmmaProduct product = {.type = DType::kF8E4M3,
                                         .out_type = s.traits.out,
                                         .a = a.map(),
                                         .b = {b.map(), {}},
                                         .out = {to.data, to.rows, to.cols, to.pitch},
                                         .a_by_depth = true,
                                         .b_by_depth = true,
                                         .parts = 1,
                                         .m = p.m,
                                         .n = p.n,
                                         .k = p.k};
  GroupedWgmmaCall call{};
  cuda::Launch how;
  if (const int code = kernels::prepare_wgmma(product, c, s.units, call.product, how)) return code;
  call.groups = grouped_gpu_params(op, args).groups;
  call.out = {const_cast<void*>(to.data), to.pitch, 1};
  call.product.operands[kDepthAScale] = {of_a.to, of_a.to_pitch};
  call.product.operands[kDepthBScale] = {of_b.to, of_b.to_pitch};
  const std::int64_t blocks = grouped_blocks(op, p.m, p.n, p.groups, c.block_m, c.block_n);
  how.grid.x = static_cast<unsigned>(std::min<std::int64_t>(blocks, s.units));
  how.shared_bytes = static_cast<unsigned>(s.shared_bytes);
  how.dependent = s.dependent;
  const int code = cuda::launch(*kernel.entries[0], how, call, context.stream);
  if (code == 0 && to.data != out.data) copy_columns(to, out, s.traits.out, context.stream);
  return code;
}

}  // namespace

Implementation grouped_depth_wgmma(const GroupedOp& op) {
  return kernels::make_cuda<Form>(
      "cuda_wgmma", source_hash<"ops/gemm/grouped_block/grouped_depth_wgmma_cuda.cpp">(), &op);
}

}  // namespace dlblas::gemm
