// cuda_split: long rows divided over the grid, two steps: the counters cleared, then the norm.
// In: Problem, Config. Out: Kernel with its two sources and a workspace; then the launches.
// Flow: call > validate > [select] > [compile] > [launch].
// Read next: ops/norm/norm_split.cuh (the kernel).
#include <algorithm>

#include "core/error.hpp"
#include "generated/source_hashes.hpp"
#include "ops/norm/norm_cuda.hpp"

namespace dlblas::norm {
namespace {

constexpr std::int64_t kMaxItems = std::int64_t{1} << 31;  // the ticket has 32 bits
constexpr std::int64_t kLeastAccesses = 2048;

const ConfigTable<NormSplitConfig>& table() {
  static const auto* knobs = new ConfigTable<NormSplitConfig>{
      field<&NormSplitConfig::threads>("threads", {256, 512}),
      field<&NormSplitConfig::vectors>("vectors", {2, 4, 8}),
      field<&NormSplitConfig::blocks>("blocks", {2, 4}),
      field<&NormSplitConfig::ahead>("ahead", {1, 3}),
  };
  return *knobs;
}

/// What `prepare` leaves for the calls.
struct State {
  const Slots* slots;
  NormSplitConfig config;
  std::int32_t elements;  // of an access
  std::int32_t units;
  bool dependent;
};

/// How a call's rows are divided.
struct Division {
  MeetingLayout meeting;
  std::int64_t lag, blocks;
};
Division divide(const State& state, std::int64_t rows, std::int64_t width) {
  const NormSplitConfig& c = state.config;
  const std::int64_t chunk = std::int64_t{c.threads} * c.vectors * state.elements;
  const std::int64_t chunks = (width + chunk - 1) / chunk;
  const std::int64_t grid = std::int64_t{state.units} * c.blocks;
  // A chunk's result comes at least `ahead` rounds of the grid after its sum.
  const std::int64_t lag = std::min(rows, (grid * c.ahead + chunks - 1) / chunks);
  return {{rows, chunks}, lag, std::min(grid, (rows + lag) * chunks)};
}

int clear(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const State& state = kernel.load<State>();
  const Division how = divide(state, args.letters[kT], args.letters[kC]);
  return clear_workspace(how.meeting.parts_at(), kernel, context, workspace, state.dependent);
}

int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const State& state = kernel.load<State>();
  const Division division = divide(state, args.letters[kT], args.letters[kC]);
  NormSplitParams params{};
  params.call = params_of(*state.slots, args);
  params.meeting = division.meeting.in(workspace);
  params.ticket = static_cast<std::uint32_t*>(workspace);
  params.lag = division.lag;
  cuda::Launch how;
  how.block.x = static_cast<unsigned>(state.config.threads);
  how.grid.x = static_cast<unsigned>(division.blocks);
  how.dependent = state.dependent;
  return cuda::launch(*kernel.entries[1], how, params, context.stream);
}

Support supports(const Slots& slots, const Problem& problem, const DeviceInfo&) {
  if (const Support rows = supports_rows(slots, problem); !rows) return rows;
  const std::int64_t row = accesses(slots, problem);
  if (row < kLeastAccesses)
    return Support::no("a row has {} accesses; fewer than {} are not worth dividing", row,
                       kLeastAccesses);
  // With the smallest chunk of the space, 128 accesses, and every row counted twice.
  if (problem.dims[kT] > kMaxItems / 2 / (row / 128 + 1))
    return Support::no("{} rows of {} accesses are too many items", problem.dims[kT], row);
  return Support::yes();
}

void constrain(const Slots& slots, const Problem& problem, const DeviceInfo& device, Space& space) {
  const NormCudaTraits traits = traits_of(slots, problem);
  space.require("the blocks' threads and registers fit a multiprocessor",
                {"threads", "vectors", "blocks"}, [traits, device](const Config& config) {
                  return valid(traits, table().restore(config), device.arch);
                });
}

Config heuristic(const Slots& slots, const Problem& problem, const DeviceInfo& device) {
  NormSplitConfig c;
  const NormCudaTraits traits = traits_of(slots, problem);
  while (c.vectors > 1 && !valid(traits, c, device.arch)) c.vectors /= 2;
  return table().erase(c);
}

double estimate(const Slots& slots, const Problem& problem, const Config&,
                const DeviceInfo& device) {
  constexpr double kClear = 1.5e-3;
  // Every multiprocessor has work, however few the rows.
  return kClear + model_ms(1.12 * bytes_of(slots, problem), problem, 1, device);
}

Kernel prepare(const Slots& slots, const Problem& problem, const Config& config,
               const DeviceInfo& device) {
  const State state{&slots, table().restore(config), norm_elements(traits_of(slots, problem)),
                    device.units, can_depend(device)};
  Kernel kernel;
  kernel.store(state);
  kernel.steps[0] = clear;
  kernel.steps[1] = run;
  kernel.num_steps = 2;
  // For the most rows that the Problem's bucket holds.
  kernel.workspace_bytes =
      static_cast<std::size_t>(divide(state, problem.dims[kT], problem.dims[kC]).meeting.bytes());
  return kernel;
}

std::vector<KernelSource> sources(const Slots& slots, const Problem& problem, const Config& config,
                                  const DeviceInfo&) {
  return {clear_source(),
          {"ops/norm/norm_split.cuh",
           text("dlblas::norm_split<", literal(traits_of(slots, problem)), ", ",
                table().literal(config, "dlblas::NormSplitConfig"), ">"),
           0}};
}

}  // namespace

const CudaKernel& cuda_split() {
  static const CudaKernel kernel = {
      "cuda_split", 80,       source_hash("ops/norm/norm_split_cuda.cpp"),
      &table(),     supports, constrain,
      heuristic,    estimate, prepare,
      sources};
  return kernel;
}

}  // namespace dlblas::norm
