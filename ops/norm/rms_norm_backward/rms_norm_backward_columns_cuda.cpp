// rms_norm_backward on NVIDIA GPUs, for any width and any layout: sums by rows, then dx and dweight
// by columns. In: Problem, Config; Args. Out: Kernel and its sources; launches. Flow: call >
// validate > [select] > [compile] > [launch].  Read next:
// ops/norm/rms_norm_backward/rms_norm_backward_columns.cuh.
#include <algorithm>

#include "core/source_hash.hpp"
#include "ops/norm/norm_ops.hpp"
#include "ops/norm/rms_norm_backward/rms_norm_backward_cuda.hpp"

namespace dlblas::norm::backward {
namespace {

const ConfigTable<BackwardColumnsConfig>& columns_table() {
  static const auto* knobs = new ConfigTable<BackwardColumnsConfig>{
      field<&BackwardColumnsConfig::threads>("threads", {8, 32, 128, 256})};
  return *knobs;
}

/// How rows are divided into groups; each group is a block of a tile, or part of one.
struct Groups {
  std::int64_t rows;    // of a group
  std::int64_t blocks;  // of a tile
};

struct Columns : BackwardForm<BackwardColumnsConfig> {
  static constexpr const char* kConfigName = "dlblas::norm::BackwardColumnsConfig";
  static const ConfigTable<BackwardColumnsConfig>& table() { return columns_table(); }

  static Support same_bits(const Query& q) {
    const Problem typical = typical_rows(q.problem);
    if (!supports_registers(q.about(typical))) return Support::yes();
    return Support::no("adds up in another order than cuda_registers, which serves this width");
  }

  static BackwardColumnsConfig preset(const Query& q) {
    const std::int64_t accesses = ceil_div(q.problem.dims[kC], norm_elements(traits_of(q.problem)));
    BackwardColumnsConfig c;
    for (const std::int32_t threads : {256, 128, 32, 8})
      if (threads >= accesses || threads == 256) c.threads = threads;
    return c;
  }

  static double milliseconds(const Query& q, const BackwardColumnsConfig&) {
    return 9e-3 + 1.5 * copy_ms(q, 2);
  }

  // A block takes `rows_here` rows at a time of a tile, which is `columns` wide.
  static std::int64_t rows_here(const State& s) { return kBackwardColumnsBlock / s.config.threads; }
  static std::int64_t columns(const State& s) { return s.config.threads * norm_elements(s.traits); }

  /// Blocks per tile that fill the device.
  static std::int64_t wanted_blocks(const State& s, std::int64_t width) {
    constexpr std::int64_t kBlocksPerUnit = 8;
    const std::int64_t tiles = std::max<std::int64_t>(1, ceil_div(width, columns(s)));
    return std::max<std::int64_t>(1, kBlocksPerUnit * s.units / tiles);
  }
  static Groups groups_for(const State& s, std::int64_t rows, std::int64_t width) {
    constexpr std::int64_t kMinRows = 8;  // whose sums are worth writing
    Groups groups = {};
    groups.rows = std::clamp<std::int64_t>(ceil_div(rows, wanted_blocks(s, width) * rows_here(s)),
                                           kMinRows, kMaxRowsInF32);
    groups.blocks = ceil_div(rows, groups.rows * rows_here(s));
    return groups;
  }
  /// An upper bound of the blocks per tile, for any number of rows up to this one.
  static std::int64_t most_blocks(const State& s, std::int64_t rows, std::int64_t width) {
    const std::int64_t short_chains = ceil_div(rows, std::int64_t{kMaxRowsInF32} * rows_here(s));
    return std::min(rows, std::max(wanted_blocks(s, width), short_chains));
  }

  // The workspace: each row's scale, then the partial sums, aligned as allocations are.
  static std::int64_t partials_at(std::int64_t rows) {
    return ceil_div(rows * static_cast<std::int64_t>(sizeof(BackwardScale)), 256) * 256;
  }
  static std::size_t workspace_bytes(const Query& q, const State& s) {
    const std::int64_t rows = q.problem.dims[kT], width = q.problem.dims[kC];
    const std::int64_t partials = most_blocks(s, rows, width) * rows_here(s) * width;
    return static_cast<std::size_t>(partials_at(rows)) +
           static_cast<std::size_t>(partials) * sizeof(float);
  }

  static std::vector<KernelSource> sources(const Query& q, const State& s) {
    const char* const include = "ops/norm/rms_norm_backward/rms_norm_backward_columns.cuh";
    return {{include, kernels::cuda_entry<Columns>("dlblas::norm::norm_backward_scales", s)},
            {include, kernels::cuda_entry<Columns>("dlblas::norm::norm_backward_columns", s)},
            fold_source(q.problem)};
  }

  static BackwardColumnsParams params(const State& s, const Args& args, void* workspace) {
    BackwardColumnsParams p = {};
    p.call = params_of(args, static_cast<char*>(workspace) + partials_at(args.letters[kT]));
    p.dy = merged(args.tensors[kDy], 1);
    p.x = merged(args.tensors[kX], 1);
    p.dx = merged(args.tensors[kDx], 1);
    if (args.has(kDresidual)) p.dresidual = merged(args.tensors[kDresidual], 1);
    if (args.has(kWeight))
      p.weight_stride = p.call.width <= 1 ? 1 : args.tensors[kWeight].strides[0];
    p.scales = workspace;
    p.rows_per_group = groups_for(s, p.call.rows, p.call.width).rows;
    return p;
  }

  static int run_scales(const Args& args, const Context& context, const Kernel& kernel,
                        void* workspace) {
    const State& s = kernel.load<State>();
    if (args.letters[kT] == 0 || args.letters[kC] == 0) return 0;
    cuda::Launch how;
    how.grid.x = static_cast<unsigned>(ceil_div(args.letters[kT], rows_here(s)));
    how.block.x = kBackwardColumnsBlock;
    return cuda::launch(*kernel.entries[0], how, params(s, args, workspace), context.stream);
  }
  static int run_columns(const Args& args, const Context& context, const Kernel& kernel,
                         void* workspace) {
    const State& s = kernel.load<State>();
    const std::int64_t rows = args.letters[kT], width = args.letters[kC];
    if (rows == 0 || width == 0) return 0;
    cuda::Launch how;
    how.grid.x =
        static_cast<unsigned>(ceil_div(width, columns(s)) * groups_for(s, rows, width).blocks);
    how.block.x = kBackwardColumnsBlock;
    return cuda::launch(*kernel.entries[1], how, params(s, args, workspace), context.stream);
  }
  static int fold_columns(const Args& args, const Context& context, const Kernel& kernel,
                          void* workspace) {
    const State& s = kernel.load<State>();
    const std::int64_t rows = args.letters[kT], width = args.letters[kC];
    if (width == 0) return 0;
    return fold(args, *kernel.entries[2], static_cast<char*>(workspace) + partials_at(rows),
                groups_for(s, rows, width).blocks * rows_here(s), context);
  }
  static std::vector<StepFn> steps(const State&) { return {run_scales, run_columns, fold_columns}; }
};

}  // namespace

Implementation cuda_columns() {
  return kernels::make_cuda<Columns>(
      "cuda_columns",
      source_hash<"ops/norm/rms_norm_backward/rms_norm_backward_columns_cuda.cpp">());
}

}  // namespace dlblas::norm::backward
