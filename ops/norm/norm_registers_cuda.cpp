// cuda_registers and cuda_cluster: a row in the registers of a block's threads, or of a cluster's.
// In: Problem, Config. Out: Kernel and its one source; then the launch. Flow: call > validate >
// [select] > [compile] > [launch].  Read next: ops/norm/norm_registers.cuh (the kernel).
#include <algorithm>

#include "core/error.hpp"
#include "generated/source_hashes.hpp"
#include "ops/norm/norm_cuda.hpp"

namespace dlblas::norm {
namespace {

constexpr std::int64_t kMaxGrid = (std::int64_t{1} << 31) - 1;

using Table = ConfigTable<NormRegistersConfig>;
// The order is the aggregate's; what a table leaves out keeps the aggregate's default.
const Table& registers_table() {
  static const auto* table = new Table{
      field<&NormRegistersConfig::threads>("threads", {4, 8, 16, 32, 64, 128, 256, 512, 1024}),
      field<&NormRegistersConfig::vectors>("vectors", {1, 2, 3, 4, 6, 8, 12, 16}),
      field<&NormRegistersConfig::rows>("rows", {1, 2, 4, 8, 16, 32}),
      field<&NormRegistersConfig::early_weight>("early_weight", {0, 1}),
      field<&NormRegistersConfig::persistent>("persistent", {0, 1}),
      field<&NormRegistersConfig::dependent>("dependent", {0, 1}),
  };
  return *table;
}
const Table& cluster_table() {
  static const auto* table = new Table{
      field<&NormRegistersConfig::threads>("threads", {128, 256, 512, 1024}),
      field<&NormRegistersConfig::vectors>("vectors", {1, 2, 3, 4, 6, 8, 12, 16}),
      field<&NormRegistersConfig::rows>("rows", {1}),
      field<&NormRegistersConfig::cluster>("cluster", {2, 4, 8}),
      field<&NormRegistersConfig::persistent>("persistent", {0, 1}),
      field<&NormRegistersConfig::dependent>("dependent", {0, 1}),
  };
  return *table;
}

/// What `prepare` leaves for the calls.
struct State {
  const Slots* slots;
  NormRegistersConfig config;
  std::int64_t most_blocks;  // persistent: what runs at a time
};

int run(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const State& state = kernel.load<State>();
  const NormRegistersConfig& c = state.config;
  const NormCudaParams params = params_of(*state.slots, args);
  std::int64_t blocks = (params.rows + c.rows - 1) / c.rows;
  if (c.persistent) blocks = std::min(blocks, state.most_blocks);
  cuda::Launch how;
  how.grid.x = static_cast<unsigned>(blocks * c.cluster);
  how.block.x = static_cast<unsigned>(c.threads * c.rows);
  how.cluster = static_cast<unsigned>(c.cluster);
  how.dependent = c.dependent;
  return cuda::launch(*kernel.entries[0], how, params, context.stream);
}

/// Which of the two it is follows from the table: a cluster, or none.
template <const Table& (*kTable)()>
struct Registers {
  static constexpr bool kCluster = kTable == cluster_table;

  /// The kernel's traits with this configuration.
  static NormCudaTraits traits_with(const Slots& slots, const Problem& problem,
                                    const NormRegistersConfig& c) {
    NormCudaTraits traits = traits_of(slots, problem);
    traits.full =
        std::int64_t{c.threads} * c.vectors * c.cluster * norm_elements(traits) == problem.dims[kC];
    return traits;
  }

  static bool fits(const Slots& slots, const Problem& problem, const NormRegistersConfig& c,
                   const DeviceInfo& device) {
    const std::int64_t threads = std::int64_t{c.threads} * c.cluster;
    return c.vectors == vectors_for(accesses(slots, problem), threads) &&
           valid(traits_with(slots, problem, c), c, device.arch);
  }

  /// The fewest threads that hold the row in few vectors, else in many. As measured with bf16 on
  /// H200, 2026-11-21: 1×4096 and 128×4096 256 threads × 2 vectors; 4096×4096, 16384×4096 128 × 4 ×
  /// 4 rows; 16384×8192 256 × 4 × 2; with `add` 256 × 2 × 2 and 512 × 2; 262144×64 … 65536×256
  /// 4, 8, 16 × 2 in blocks of 128, with `add` 8, 16, 32 × 1: all within 2 % of the best found.
  static NormRegistersConfig pick(const Slots& slots, const Problem& problem,
                                  const DeviceInfo& device) {
    const bool few = problem.dims[kT] <= 2 * device.units;
    const std::int64_t row = accesses(slots, problem);
    const bool brief = row <= 64;
    const int wanted = few ? 2 : (brief ? 2 : 4) / (slots.adds() ? 2 : 1);
    for (const int most : {wanted, 4, 16}) {
      for (const std::int64_t threads : kTable().knobs()[0].values) {
        for (const int cluster : {1, 2, 4, 8}) {
          if ((cluster > 1) != kCluster) continue;
          NormRegistersConfig c;
          c.threads = static_cast<std::int32_t>(threads);
          c.cluster = cluster;
          c.vectors = vectors_for(row, threads * cluster);
          const std::int64_t block = few ? 32 : brief ? 128 : 512;
          c.rows =
              kCluster ? 1 : static_cast<std::int32_t>(std::max<std::int64_t>(1, block / threads));
          c.rows = std::min(c.rows, 32);
          c.dependent = device.arch >= 90;
          if (c.vectors > 0 && c.vectors <= most && fits(slots, problem, c, device)) return c;
        }
      }
    }
    NormRegistersConfig none;
    none.vectors = 0;
    return none;
  }

  static Support supports(const Slots& slots, const Problem& problem, const DeviceInfo& device) {
    if (const Support rows = supports_rows(slots, problem); !rows) return rows;
    if (problem.dims[kT] > kMaxGrid / 8) return Support::no("more than {} rows", kMaxGrid / 8);
    if (kCluster && accesses(slots, problem) < 512)
      return Support::no("a row has {} accesses; too few to be shared by blocks",
                         accesses(slots, problem));
    if (pick(slots, problem, device).vectors == 0)
      return Support::no("a row has {} accesses; more than the threads' registers hold",
                         accesses(slots, problem));
    return Support::yes();
  }

  static void constrain(const Slots& slots, const Problem& problem, const DeviceInfo& device,
                        Space& space) {
    // Two of them share a name and a kernel's limits: norm_cuda_config.hpp has the predicate.
    std::vector<std::string_view> all;
    for (const Knob& knob : kTable().knobs()) all.push_back(knob.name);
    const std::int64_t row = accesses(slots, problem);
    space.require("the threads' vectors hold the row, and no fewer would",
                  kCluster ? std::vector<std::string_view>{"threads", "vectors", "cluster"}
                           : std::vector<std::string_view>{"threads", "vectors"},
                  [row](const Config& config) {
                    const NormRegistersConfig c = restore(config);
                    return c.vectors == vectors_for(row, std::int64_t{c.threads} * c.cluster);
                  });
    space.require("the block's threads, barriers and registers suffice", all,
                  [slots, problem, arch = device.arch](const Config& config) {
                    const NormRegistersConfig c = restore(config);
                    return valid(traits_with(slots, problem, c), c, arch);
                  });
  }
  /// Also of a configuration whose last knobs have no value yet.
  static NormRegistersConfig restore(const Config& config) { return kTable().restore(config); }

  static Config heuristic(const Slots& slots, const Problem& problem, const DeviceInfo& device) {
    return kTable().erase(pick(slots, problem, device));
  }

  static double estimate(const Slots& slots, const Problem& problem, const Config& config,
                         const DeviceInfo& device) {
    const NormRegistersConfig c = restore(config);
    // 1024×65536 with bf16 on H200, 2026-11-21: 79 µs, where a copy takes 65.
    const double share = kCluster ? 1.22 : 1.0, meeting = kCluster ? 1e-3 : 0;
    return meeting + model_ms(share * bytes_of(slots, problem), problem,
                              static_cast<double>(device.units) / c.cluster, device);
  }

  static Kernel prepare(const Slots& slots, const Problem& problem, const Config& config,
                        const DeviceInfo& device) {
    State state{&slots, restore(config), 0};
    const NormRegistersConfig& c = state.config;
    state.most_blocks = std::max<std::int64_t>(
        1, std::int64_t{device.units} * norm_blocks(traits_with(slots, problem, c), c) / c.cluster);
    Kernel kernel;
    kernel.store(state);
    kernel.steps[0] = run;
    kernel.num_steps = 1;
    return kernel;
  }

  static std::vector<KernelSource> sources(const Slots& slots, const Problem& problem,
                                           const Config& config, const DeviceInfo&) {
    const NormRegistersConfig c = restore(config);
    return {{"ops/norm/norm_registers.cuh",
             text("dlblas::norm_registers<", literal(traits_with(slots, problem, c)), ", ",
                  kTable().literal(config, "dlblas::NormRegistersConfig"), ">"),
             0}};
  }

  static CudaKernel kernel() {
    return {kCluster ? "cuda_cluster" : "cuda_registers",
            kCluster ? 90 : 80,
            source_hash("ops/norm/norm_registers_cuda.cpp"),
            &kTable(),
            supports,
            constrain,
            heuristic,
            estimate,
            prepare,
            sources};
  }
};

}  // namespace

const CudaKernel& cuda_registers() {
  static const CudaKernel kernel = Registers<registers_table>::kernel();
  return kernel;
}
const CudaKernel& cuda_cluster() {
  static const CudaKernel kernel = Registers<cluster_table>::kernel();
  return kernel;
}

}  // namespace dlblas::norm
