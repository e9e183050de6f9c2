// cuda_ring: long rows streamed through shared memory by blocks that stay; the blocks of a row meet
// in a workspace, so all of them have to run at the same time: a cooperative launch.
// In: Problem, Config. Out: Kernel and its sources; then the launch. Flow: call > validate >
// [select] > [compile] > [launch].  Read next: ops/norm/norm_ring.cuh (the kernel).
#include <algorithm>

#include "core/error.hpp"
#include "generated/source_hashes.hpp"
#include "ops/norm/norm_cuda.hpp"

namespace dlblas::norm {
namespace {

constexpr std::int64_t kLeastAccesses = 2048;
constexpr std::int64_t kMostRows = 1 << 30;
constexpr std::int32_t kRingVectors[] = {2, 4, 8, 16};
/// Accesses of a block's part of a row below which more blocks are not worth their meeting.
constexpr std::int64_t kLeastPart = 2048;

const ConfigTable<NormRingConfig>& table() {
  static const auto* knobs = new ConfigTable<NormRingConfig>{
      field<&NormRingConfig::threads>("threads", {256, 512}),
      field<&NormRingConfig::vectors>("vectors", {2, 4, 8, 16}),
      field<&NormRingConfig::step>("step", {2, 4}),
      field<&NormRingConfig::blocks>("blocks", {2, 4, 8, 16, 32, 64, 128}),
      field<&NormRingConfig::depth>("depth", {1, 2, 3, 4}),
  };
  return *knobs;
}

/// What `prepare` leaves for the calls.
struct State {
  const Slots* slots;
  NormRingConfig config;
  std::int32_t shared_bytes;
  std::int64_t most_groups;  // that run at a time
  bool dependent;
};

std::int64_t groups_of(const NormRingConfig& c, const DeviceInfo& device) {
  return device.units / c.blocks;
}

/// The least number of groups that takes as few rounds as the most would.
std::int64_t balanced(std::int64_t rows, std::int64_t most) {
  const std::int64_t rounds = (rows + most - 1) / most;
  return (rows + rounds - 1) / rounds;
}

int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const State& state = kernel.load<State>();
  const NormRingConfig& c = state.config;
  NormRingParams params{};
  params.call = params_of(*state.slots, args);
  params.parts = static_cast<double*>(workspace);
  const std::int64_t rows = params.call.rows, groups = balanced(rows, state.most_groups);
  const std::int64_t rounds = (rows + groups - 1) / groups;
  params.rounds = static_cast<std::int32_t>(rounds);
  params.last_round = static_cast<std::int32_t>(rows - (rounds - 1) * groups);
  cuda::Launch how;
  how.grid.x = static_cast<unsigned>(groups * c.blocks);
  how.block.x = static_cast<unsigned>(c.threads + 32);  // and the warp of sums
  how.shared_bytes = static_cast<unsigned>(state.shared_bytes);
  how.cooperative = true;
  how.dependent = state.dependent;
  return cuda::launch(*kernel.entries[0], how, params, context.stream);
}

std::int32_t ring_vectors(std::int64_t accesses, std::int64_t threads) {
  for (std::int32_t vectors : kRingVectors)
    if (vectors * threads >= accesses) return vectors;
  return 0;
}

/// The kernel's traits with this configuration.
NormCudaTraits traits_with(const Slots& slots, const Problem& problem, const NormRingConfig& c) {
  NormCudaTraits traits = traits_of(slots, problem);
  traits.full =
      std::int64_t{c.threads} * c.vectors * c.blocks * norm_elements(traits) == problem.dims[kC];
  return traits;
}

bool fits(const Slots& slots, const Problem& problem, const NormRingConfig& c,
          const DeviceInfo& device) {
  const std::int64_t part = std::int64_t{c.threads} * c.vectors;
  return c.vectors == ring_vectors(accesses(slots, problem), std::int64_t{c.threads} * c.blocks) &&
         (part >= kLeastPart || c.blocks == 2) && groups_of(c, device) > 0 &&
         valid(traits_of(slots, problem), c, device.arch);
}

/// The most stages in flight that fit, up to three.
bool settle(const Slots& slots, const Problem& problem, const DeviceInfo& device,
            NormRingConfig* c) {
  for (c->depth = 3; c->depth > 0; --c->depth)
    if (fits(slots, problem, *c, device)) return true;
  return false;
}

/// The fewest blocks a row that fit, with eight accesses a thread before sixteen. None: vectors =
/// 0.
NormRingConfig pick(const Slots& slots, const Problem& problem, const DeviceInfo& device) {
  NormRingConfig c;
  for (const int most : {8, 16})
    for (c.blocks = 2; c.blocks <= 128; c.blocks *= 2) {
      c.vectors = ring_vectors(accesses(slots, problem), std::int64_t{c.threads} * c.blocks);
      if (c.vectors > 0 && c.vectors <= most && settle(slots, problem, device, &c)) return c;
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
                {"threads", "vectors", "step", "blocks", "depth"},
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
  // 256×262144 and 16×4194304 with bf16 on H200, 2026-11-21: 75 and 142 µs, copies 65 and 130.
  const double share = slots.adds() ? 1.08 : 1.12;
  return model_ms(share * bytes_of(slots, problem), problem,
                  static_cast<double>(groups_of(c, device)), device);
}

Kernel prepare(const Slots& slots, const Problem& problem, const Config& config,
               const DeviceInfo& device) {
  const NormRingConfig c = table().restore(config);
  Kernel kernel;
  kernel.store(State{&slots, c, norm_ring_bytes(traits_of(slots, problem), c), groups_of(c, device),
                     can_depend(device)});
  // The parts of every row's sum, for the most rows that the Problem's bucket holds.
  kernel.workspace_bytes = static_cast<std::size_t>(problem.dims[kT]) * norm_ring_copies(c.blocks) *
                           c.blocks * sizeof(double);
  kernel.steps[0] = run;
  kernel.num_steps = 1;
  return kernel;
}

std::vector<KernelSource> sources(const Slots& slots, const Problem& problem, const Config& config,
                                  const DeviceInfo&) {
  const NormRingConfig c = table().restore(config);
  const NormCudaTraits traits = traits_with(slots, problem, c);
  return {{"ops/norm/norm_ring.cuh",
           text("dlblas::norm_ring<", literal(traits), ", ",
                table().literal(config, "dlblas::NormRingConfig"), ">"),
           norm_ring_bytes(traits, c)}};
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
