// rms_norm_backward on NVIDIA GPUs, for any width and any layout: sums by rows, then dx and dweight
// by columns. In: Problem, Config; Args. Out: Kernel and its sources; launches. Flow: call >
// validate > [select] > [compile] > [launch].  Read next: ops/norm/rms_norm_backward_columns.cuh.
#include <algorithm>

#include "generated/source_hashes.hpp"
#include "ops/norm/norm_ops.hpp"
#include "ops/norm/rms_norm_backward_cuda.hpp"

namespace dlblas::norm::backward {
namespace {

const ConfigTable<BackwardColumnsConfig>& columns_table() {
  static const auto* knobs = new ConfigTable<BackwardColumnsConfig>{
      field<&BackwardColumnsConfig::threads>("threads", {8, 32, 128, 256})};
  return *knobs;
}

struct ColumnsState {
  std::int32_t threads;  // of a row
  std::int32_t columns;  // of a tile
  std::int32_t units;
  std::int64_t scales_at;  // bytes into the workspace, after the partial sums
  std::int64_t rows_here() const { return kBackwardColumnsBlock / threads; }
};

/// How rows are divided among groups, each a tile's block or a part of one.
struct Groups {
  std::int64_t rows;    // of a group
  std::int64_t blocks;  // of a tile
};
/// Blocks of a tile that fill the device.
std::int64_t wanted_blocks(const ColumnsState& s, std::int64_t width) {
  constexpr std::int64_t kBlocksPerUnit = 8;
  const std::int64_t tiles = std::max<std::int64_t>(1, ceil_div(width, s.columns));
  return std::max<std::int64_t>(1, kBlocksPerUnit * s.units / tiles);
}
Groups groups_for(const ColumnsState& s, std::int64_t rows, std::int64_t width) {
  constexpr std::int64_t kLeastRows = 8;  // whose sums are worth writing
  Groups groups = {};
  groups.rows = std::clamp<std::int64_t>(ceil_div(rows, wanted_blocks(s, width) * s.rows_here()),
                                         kLeastRows, kMostRowsInF32);
  groups.blocks = ceil_div(rows, groups.rows * s.rows_here());
  return groups;
}
/// The most blocks of a tile for any number of rows up to this one.
std::int64_t most_blocks(const ColumnsState& s, std::int64_t rows, std::int64_t width) {
  const std::int64_t short_chains = ceil_div(rows, std::int64_t{kMostRowsInF32} * s.rows_here());
  return std::min(rows, std::max(wanted_blocks(s, width), short_chains));
}

NormRowMap map_of(const TensorView& t) {
  const Rows rows = rows_of(t);
  NormRowMap map = {};
  map.inner = t.shape[t.rank - 1] <= 1 ? 1 : t.strides[t.rank - 1];
  map.rank = rows.rank;
  if (rows.rank == 1) {
    map.shape[0] = std::max<std::int64_t>(1, rows.count);
    map.strides[0] = rows.stride;
  }
  for (int i = 0; i < rows.rank && rows.rank > 1; ++i) {
    map.shape[i] = rows.shape[i];
    map.strides[i] = rows.strides[i];
  }
  return map;
}

BackwardColumnsParams columns_params(const Args& args, const ColumnsState& s, void* workspace) {
  BackwardColumnsParams p = {};
  p.call = params_of(args, workspace);
  p.dy = map_of(args.tensors[kDy]);
  p.x = map_of(args.tensors[kX]);
  p.dx = map_of(args.tensors[kDx]);
  if (args.has(kDresidual)) p.dresidual = map_of(args.tensors[kDresidual]);
  p.weight_stride = p.call.width <= 1 ? 1 : args.tensors[kWeight].strides[0];
  p.scales = static_cast<char*>(workspace) + s.scales_at;
  p.rows_per_group = groups_for(s, p.call.rows, p.call.width).rows;
  return p;
}

int run_scales(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto& s = kernel.load<ColumnsState>();
  if (args.letters[kT] == 0 || args.letters[kC] == 0) return 0;
  cuda::Launch how;
  how.grid.x = static_cast<unsigned>(ceil_div(args.letters[kT], s.rows_here()));
  how.block.x = kBackwardColumnsBlock;
  return cuda::launch(*kernel.entries[0], how, columns_params(args, s, workspace), context.stream);
}
int run_columns(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto& s = kernel.load<ColumnsState>();
  const std::int64_t rows = args.letters[kT], width = args.letters[kC];
  if (rows == 0 || width == 0) return 0;
  cuda::Launch how;
  how.grid.x =
      static_cast<unsigned>(ceil_div(width, s.columns) * groups_for(s, rows, width).blocks);
  how.block.x = kBackwardColumnsBlock;
  return cuda::launch(*kernel.entries[1], how, columns_params(args, s, workspace), context.stream);
}
int fold_columns(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto& s = kernel.load<ColumnsState>();
  if (args.letters[kC] == 0) return 0;
  const Groups groups = groups_for(s, args.letters[kT], args.letters[kC]);
  return fold(args, *kernel.entries[2], workspace, groups.blocks * s.rows_here(), context);
}

BackwardColumnsConfig default_columns(const Problem& problem) {
  const std::int64_t accesses = ceil_div(problem.dims[kC], norm_elements(traits_of(problem)));
  BackwardColumnsConfig c;
  for (const std::int32_t threads : {256, 128, 32, 8})
    if (threads >= accesses || threads == 256) c.threads = threads;
  return c;
}

Kernel prepare_columns(const Problem& problem, const Config& config, const DeviceInfo& device,
                       const Implementation& self) {
  const std::int64_t rows = problem.dims[kT], width = problem.dims[kC];
  ColumnsState state = {};
  state.threads = columns_table().restore(config).threads;
  state.columns = state.threads * norm_elements(traits_of(problem));
  state.units = device.units;
  const std::int64_t partials = most_blocks(state, rows, width) * state.rows_here() * width;
  state.scales_at = ceil_div(partials * static_cast<std::int64_t>(sizeof(float)), 16) * 16;
  Kernel kernel;
  kernel.implementation = &self;
  kernel.store(state);
  kernel.steps[0] = run_scales;
  kernel.steps[1] = run_columns;
  kernel.steps[2] = fold_columns;
  kernel.num_steps = 3;
  kernel.workspace_bytes = static_cast<std::size_t>(state.scales_at) +
                           static_cast<std::size_t>(rows) * sizeof(BackwardScale);
  return kernel;
}

std::vector<KernelSource> columns_sources(const Problem& problem, const Config& config,
                                          const DeviceInfo&, const Implementation&) {
  const std::string values =
      text("<", literal(traits_of(problem)), ", ",
           columns_table().literal(config, "dlblas::BackwardColumnsConfig"), ">");
  const char* const include = "ops/norm/rms_norm_backward_columns.cuh";
  return {{include, "dlblas::norm_backward_scales" + values},
          {include, "dlblas::norm_backward_columns" + values},
          fold_source(problem)};
}

}  // namespace

Implementation cuda_columns() {
  Implementation impl;
  impl.name = "cuda_columns";
  impl.source_hash = source_hash("ops/norm/rms_norm_backward_columns_cuda.cpp");
  impl.knobs = &columns_table();
  impl.supports = [](const Problem&, const DeviceInfo&, const Implementation&) {
    return Support::yes();
  };
  impl.constrain = [](const Problem& problem, const DeviceInfo&, Space& space) {
    if (problem.flags & kDeterministic)
      space.require("the same bits: one configuration a width", {"threads"},
                    [one = columns_table().erase(default_columns(problem))](const Config& c) {
                      return c == one;
                    });
  };
  impl.heuristic = [](const Problem& problem, const DeviceInfo&) {
    return columns_table().erase(default_columns(problem));
  };
  impl.estimate = [](const Problem& problem, const Config&, const DeviceInfo&,
                     const Implementation&) { return 9e-3 + 1.5 * copy_ms(problem, 2); };
  impl.prepare = prepare_columns;
  impl.sources = columns_sources;
  return impl;
}

}  // namespace dlblas::norm::backward
