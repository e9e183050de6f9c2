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
      field<&NormSplitConfig::threads>("threads", {128, 256, 512, 1024}),
      field<&NormSplitConfig::vectors>("vectors", {1, 2, 4, 8}),
      field<&NormSplitConfig::blocks>("blocks", {1, 2, 3, 4}),
      field<&NormSplitConfig::ahead>("ahead", {1, 2, 3}),
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

/// How a call's rows are divided, and its workspace: the ticket, the counters, then the parts.
struct Division {
  std::int64_t chunks, lag, blocks, clear_words, bytes;
  std::int64_t totals_at, arrived_at, parts_at;
};
Division divide(const NormSplitConfig& c, int elements, int units, std::int64_t rows,
                std::int64_t width) {
  Division d{};
  const std::int64_t chunk = std::int64_t{c.threads} * c.vectors * elements;
  d.chunks = (width + chunk - 1) / chunk;
  const std::int64_t grid = std::int64_t{units} * c.blocks;
  // A chunk's result comes at least `ahead` rounds of the grid after its sum.
  d.lag = std::min(rows, (grid * c.ahead + d.chunks - 1) / d.chunks);
  d.blocks = std::min(grid, (rows + d.lag) * d.chunks);
  d.totals_at = 16;
  d.arrived_at = d.totals_at + rows * 8;
  d.parts_at = (d.arrived_at + rows * 4 + 15) / 16 * 16;
  d.clear_words = d.parts_at / 4;
  d.bytes = d.parts_at + rows * d.chunks * 8;
  return d;
}

NormSplitParams split_params(const State& state, const Args& args, void* workspace, Division* how) {
  NormSplitParams p{};
  p.call = params_of(*state.slots, args);
  const Division d = divide(state.config, state.elements, state.units, p.call.rows, p.call.width);
  auto* base = static_cast<char*>(workspace);
  p.ticket = reinterpret_cast<std::uint32_t*>(base);
  p.totals = reinterpret_cast<double*>(base + d.totals_at);
  p.arrived = reinterpret_cast<std::uint32_t*>(base + d.arrived_at);
  p.parts = reinterpret_cast<double*>(base + d.parts_at);
  p.clear_words = d.clear_words;
  p.chunks = static_cast<std::int32_t>(d.chunks);
  p.lag = static_cast<std::int32_t>(d.lag);
  *how = d;
  return p;
}

int clear(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const State& state = kernel.load<State>();
  Division division;
  const NormSplitParams params = split_params(state, args, workspace, &division);
  cuda::Launch how;
  how.block.x = 256;
  how.grid.x =
      static_cast<unsigned>(std::clamp<std::int64_t>(division.clear_words / 256, 1, state.units));
  return cuda::launch(*kernel.entries[0], how, params, context.stream);
}

int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const State& state = kernel.load<State>();
  Division division;
  const NormSplitParams params = split_params(state, args, workspace, &division);
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
                    device.units, device.arch >= 90};
  Kernel kernel;
  kernel.store(state);
  kernel.steps[0] = clear;
  kernel.steps[1] = run;
  kernel.num_steps = 2;
  // For the most rows that the Problem's bucket holds.
  kernel.workspace_bytes = static_cast<std::size_t>(
      divide(state.config, state.elements, state.units, problem.dims[kT], problem.dims[kC]).bytes);
  return kernel;
}

std::vector<KernelSource> sources(const Slots& slots, const Problem& problem, const Config& config,
                                  const DeviceInfo&) {
  return {{"ops/norm/norm_split_clear.cuh", "dlblas::norm_split_clear", 0},
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
