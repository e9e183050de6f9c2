// cuda_split: long rows divided over the grid, in two steps: clear the counters, then the norm.
// In: Problem, Config. Out: Kernel with its two sources and a workspace; then the launches.
// Flow: call > validate > [select] > [compile] > [launch].
// Read next: ops/norm/cuda/norm_split.cuh (the kernel).
#include <algorithm>

#include "core/error.hpp"
#include "core/source_hash.hpp"
#include "ops/norm/cuda/norm_cuda.hpp"

namespace dlblas::norm {
namespace {

constexpr std::int64_t kMaxItems = std::int64_t{1} << 31;  // the ticket has 32 bits
constexpr std::int64_t kMinAccesses = 2048;

/// How a call's rows are divided.
struct Division {
  GridRowSumLayout row_sum;
  std::int64_t lag, blocks;
};

struct Split : NormForm<NormSplitConfig> {
  static constexpr const char* kConfigName = "dlblas::norm::NormSplitConfig";
  static const ConfigTable<NormSplitConfig>& table() {
    static const auto* knobs = new ConfigTable<NormSplitConfig>{
        field<&NormSplitConfig::threads>("threads", {256, 512}),
        field<&NormSplitConfig::vectors>("vectors", {2, 4, 8}),
        field<&NormSplitConfig::blocks>("blocks", {2, 4}),
        field<&NormSplitConfig::ahead>("ahead", {1, 3}),
    };
    return *knobs;
  }

  static Division divide(const State& state, std::int64_t rows, std::int64_t width) {
    const NormSplitConfig& c = state.config;
    const std::int64_t chunk = std::int64_t{c.threads} * c.vectors * norm_elements(state.traits);
    const std::int64_t chunks = (width + chunk - 1) / chunk;
    const std::int64_t grid = std::int64_t{state.units} * c.blocks;
    // A chunk's result follows its sum by at least `ahead` rounds of the grid.
    const std::int64_t lag = std::min(rows, (grid * c.ahead + chunks - 1) / chunks);
    return {{rows, chunks}, lag, std::min(grid, (rows + lag) * chunks)};
  }

  static Support supports(const Query& q) {
    if (const Support rows = supports_rows(q); !rows) return rows;
    const std::int64_t row = accesses(q);
    if (row < kMinAccesses)
      return Support::no("a row has {} accesses; fewer than {} are not worth dividing", row,
                         kMinAccesses);
    // An upper bound: chunks of 128 accesses (the space has none below 512), every row counted
    // twice.
    if (q.problem.dims[kT] > kMaxItems / 2 / (row / 128 + 1))
      return Support::no("{} rows of {} accesses are too many items", q.problem.dims[kT], row);
    return Support::yes();
  }

  static void constrain(const Query& q, Space& space) {
    space.require(table(), "the blocks' threads and registers fit a multiprocessor",
                  {"threads", "vectors", "blocks"},
                  [traits = traits_of(q), arch = q.device.arch](const NormSplitConfig& c) {
                    return valid(traits, c, arch);
                  });
  }

  static NormSplitConfig preset(const Query& q) {
    NormSplitConfig c;
    const NormCudaTraits traits = traits_of(q);
    while (c.vectors > 1 && !valid(traits, c, q.device.arch)) c.vectors /= 2;
    return c;
  }

  static double milliseconds(const Query& q, const NormSplitConfig&) {
    constexpr double kClear = 1.5e-3;
    // Every multiprocessor has work, however few the rows.
    return kClear + model_ms(q, 1.12 * bytes_of(q), 1);
  }

  /// For the largest number of rows in the Problem's bucket.
  static std::size_t workspace_bytes(const Query& q, const State& state) {
    return static_cast<std::size_t>(
        divide(state, q.problem.dims[kT], q.problem.dims[kC]).row_sum.bytes());
  }

  static std::vector<KernelSource> sources(const Query&, const State& state) {
    return {zero_fill_source(),
            {"ops/norm/cuda/norm_split.cuh",
             kernels::cuda_entry<Split>("dlblas::norm::norm_split", state)}};
  }

  static int clear(const Args& args, const Context& context, const Kernel& kernel,
                   void* workspace) {
    const State& state = kernel.load<State>();
    const Division how = divide(state, args.letters[kT], args.letters[kC]);
    return zero_workspace(how.row_sum.parts_at(), kernel, context, workspace, state.dependent);
  }

  static int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
    const State& state = kernel.load<State>();
    const Division division = divide(state, args.letters[kT], args.letters[kC]);
    NormSplitParams params{};
    params.call = params_of(tensors_of(state), args);
    params.row_sum = division.row_sum.in(workspace);
    params.ticket = static_cast<std::uint32_t*>(workspace);
    params.lag = division.lag;
    cuda::Launch how;
    how.block.x = static_cast<unsigned>(state.config.threads);
    how.grid.x = static_cast<unsigned>(division.blocks);
    how.dependent = state.dependent;
    return cuda::launch(*kernel.entries[1], how, params, context.stream);
  }
  static std::vector<StepFn> steps(const State&) { return {clear, run}; }
};

}  // namespace

Implementation cuda_split(const NormTensors& tensors) {
  return kernels::make_cuda<Split>("cuda_split", source_hash<"ops/norm/cuda/norm_split_cuda.cpp">(),
                                   &tensors);
}

}  // namespace dlblas::norm
