// cuda_ring: long rows streamed through shared memory by blocks that stay; a row is one block's, a
// cluster's, or shared by many, which takes a workspace and a first step that clears it.
// In: Problem, Config. Out: Kernel and its sources; then the launch. Flow: call > validate >
// [select] > [compile] > [launch].  Read next: ops/norm/norm_ring.cuh (the kernel).
#include <algorithm>

#include "core/error.hpp"
#include "generated/source_hashes.hpp"
#include "ops/norm/norm_cuda.hpp"

namespace dlblas::norm {
namespace {

constexpr std::int64_t kLeastAccesses = 512;
constexpr std::int64_t kMostRows = 1 << 30;
constexpr std::int32_t kRingVectors[] = {1, 2, 4, 8};

const ConfigTable<NormRingConfig>& table() {
  static const auto* knobs = new ConfigTable<NormRingConfig>{
      field<&NormRingConfig::threads>("threads", {128, 256, 512}),
      field<&NormRingConfig::vectors>("vectors", {1, 2, 4, 8}),
      field<&NormRingConfig::step>("step", {1, 2, 4}),
      field<&NormRingConfig::blocks>("blocks", {1, 2, 4, 8, 16, 32, 64, 128}),
      field<&NormRingConfig::ahead>("ahead", {1, 2}),
      field<&NormRingConfig::share>("share", {1, 2, 3}),
  };
  return *knobs;
}

/// What `prepare` leaves for the calls.
struct State {
  const Slots* slots;
  NormRingConfig config;
  std::int32_t shared_bytes;
  std::int64_t most_groups;  // that run at a time
  bool meets;                // in the workspace
};

bool meets(const NormRingConfig& c) { return c.blocks > 8; }

/// Groups of blocks that a device runs at a time. Clusters lie within a part of it: those have 16
/// multiprocessors or a few more, and what is left over holds none.
std::int64_t groups_of(const NormRingConfig& c, const DeviceInfo& device) {
  const int units = c.blocks == 1 ? device.units : device.units / 16 * 16;
  return std::int64_t{units} * c.share / c.blocks;
}

/// The least number of groups that takes as few rounds as the most would.
std::int64_t balanced(std::int64_t rows, std::int64_t most) {
  const std::int64_t rounds = (rows + most - 1) / most;
  return (rows + rounds - 1) / rounds;
}

int clear(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  return clear_meeting({args.letters[kT], kernel.load<State>().config.blocks}, kernel, context,
                       workspace);
}

int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const State& state = kernel.load<State>();
  const NormRingConfig& c = state.config;
  NormRingParams params{};
  params.call = params_of(*state.slots, args);
  if (state.meets) params.meeting = MeetingLayout{params.call.rows, c.blocks}.in(workspace);
  cuda::Launch how;
  how.grid.x = static_cast<unsigned>(balanced(params.call.rows, state.most_groups) * c.blocks);
  how.block.x = static_cast<unsigned>(c.threads);
  how.shared_bytes = static_cast<unsigned>(state.shared_bytes);
  how.cluster = state.meets ? 1 : static_cast<unsigned>(c.blocks);
  how.cooperative = state.meets;
  return cuda::launch(*kernel.entries[state.meets ? 1 : 0], how, params, context.stream);
}

std::int32_t ring_vectors(std::int64_t accesses, std::int64_t threads) {
  for (std::int32_t vectors : kRingVectors)
    if (vectors * threads >= accesses) return vectors;
  return 0;
}

bool fits(const Slots& slots, const Problem& problem, const NormRingConfig& c,
          const DeviceInfo& device) {
  const std::int64_t threads = std::int64_t{c.threads} * c.blocks;
  return c.vectors == ring_vectors(accesses(slots, problem), threads) &&
         (!meets(c) || c.share == 1) && groups_of(c, device) > 0 &&
         valid(traits_of(slots, problem), c, device.arch);
}

/// The fewest blocks a row that fit, four accesses a thread before eight. None: vectors = 0.
NormRingConfig pick(const Slots& slots, const Problem& problem, const DeviceInfo& device) {
  NormRingConfig c;
  for (const int most : {4, 8}) {
    for (c.blocks = 1; c.blocks <= 128; c.blocks *= 2) {
      c.vectors = ring_vectors(accesses(slots, problem), std::int64_t{c.threads} * c.blocks);
      c.step = std::min(c.vectors, 2);
      if (c.vectors > 0 && c.vectors <= most && fits(slots, problem, c, device)) return c;
    }
  }
  c.vectors = 0;
  return c;
}

Support supports(const Slots& slots, const Problem& problem, const DeviceInfo& device) {
  if (const Support rows = supports_rows(slots, problem); !rows) return rows;
  const NormCudaTraits traits = traits_of(slots, problem);
  if (traits.align < 16)
    return Support::no("rows are aligned to {} bytes; whole accesses have 16", traits.align);
  const std::int64_t row = accesses(slots, problem);
  if (row < kLeastAccesses)
    return Support::no("a row has {} accesses; fewer than {} are not worth a ring", row,
                       kLeastAccesses);
  if (problem.dims[kT] > kMostRows) return Support::no("more than {} rows", kMostRows);
  if (pick(slots, problem, device).vectors == 0)
    return Support::no("a row has {} accesses; more than the device's shared memory holds", row);
  return Support::yes();
}

void constrain(const Slots& slots, const Problem& problem, const DeviceInfo& device, Space& space) {
  const std::int64_t row = accesses(slots, problem);
  space.require("the threads' vectors hold the row, and no fewer would",
                {"threads", "vectors", "blocks"}, [row](const Config& config) {
                  const NormRingConfig c = table().restore(config);
                  return c.vectors == ring_vectors(row, std::int64_t{c.threads} * c.blocks);
                });
  space.require("the ring fits the block's shared memory and registers",
                {"threads", "vectors", "step", "blocks", "ahead", "share"},
                [slots, problem, device](const Config& config) {
                  return fits(slots, problem, table().restore(config), device);
                });
}

Config heuristic(const Slots& slots, const Problem& problem, const DeviceInfo& device) {
  return table().erase(pick(slots, problem, device));
}

double estimate(const Slots& slots, const Problem& problem, const Config& config,
                const DeviceInfo& device) {
  const NormRingConfig c = table().restore(config);
  const double clear_ms = meets(c) ? 2e-3 : 0;
  return clear_ms + model_ms(1.05 * bytes_of(slots, problem), problem,
                             static_cast<double>(groups_of(c, device)), device);
}

Kernel prepare(const Slots& slots, const Problem& problem, const Config& config,
               const DeviceInfo& device) {
  const NormRingConfig c = table().restore(config);
  Kernel kernel;
  kernel.store(State{&slots, c, norm_ring_bytes(traits_of(slots, problem), c), groups_of(c, device),
                     meets(c)});
  if (meets(c)) {
    kernel.steps[kernel.num_steps++] = clear;
    // For the most rows that the Problem's bucket holds.
    kernel.workspace_bytes =
        static_cast<std::size_t>(MeetingLayout{problem.dims[kT], c.blocks}.bytes());
  }
  kernel.steps[kernel.num_steps++] = run;
  return kernel;
}

std::vector<KernelSource> sources(const Slots& slots, const Problem& problem, const Config& config,
                                  const DeviceInfo&) {
  const NormRingConfig c = table().restore(config);
  const NormCudaTraits traits = traits_of(slots, problem);
  std::vector<KernelSource> all;
  if (meets(c)) all.push_back(clear_source());
  all.push_back({"ops/norm/norm_ring.cuh",
                 text("dlblas::norm_ring<", literal(traits), ", ",
                      table().literal(config, "dlblas::NormRingConfig"), ">"),
                 norm_ring_bytes(traits, c)});
  return all;
}

}  // namespace

const CudaKernel& cuda_ring() {
  static const CudaKernel kernel = {
      "cuda_ring", 90,       source_hash("ops/norm/norm_ring_cuda.cpp"),
      &table(),    supports, constrain,
      heuristic,   estimate, prepare,
      sources};
  return kernel;
}

}  // namespace dlblas::norm
