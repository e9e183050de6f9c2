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
constexpr std::int64_t kLeastShared = 2048;  // accesses of a row over a cluster

using Table = ConfigTable<NormRegistersConfig>;
// The order is the aggregate's; what a table leaves out keeps the aggregate's default.
const Table& registers_table() {
  static const auto* table = new Table{
      field<&NormRegistersConfig::threads>("threads", {4, 8, 16, 32, 64, 128, 256, 512, 1024}),
      field<&NormRegistersConfig::vectors>("vectors", {1, 2, 3, 4, 6, 8, 12, 16}),
      field<&NormRegistersConfig::rows>("rows", {1, 2, 4, 8, 16, 32}),
      field<&NormRegistersConfig::last>("last", {0, 1}),
  };
  return *table;
}
const Table& cluster_table() {
  static const auto* table = new Table{
      field<&NormRegistersConfig::threads>("threads", {128, 256, 512, 1024}),
      field<&NormRegistersConfig::vectors>("vectors", {1, 2, 3, 4, 6, 8, 12, 16}),
      field<&NormRegistersConfig::rows>("rows", {1}),
      field<&NormRegistersConfig::cluster>("cluster", {2, 4, 8, 16}),
      field<&NormRegistersConfig::early_weight>("early_weight", {0, 1}),
      field<&NormRegistersConfig::last>("last", {0, 1}),
  };
  return *table;
}

constexpr std::int32_t kFewestThreads = 4;

/// What `prepare` leaves for the calls.
struct State {
  const Slots* slots;
  NormRegistersConfig config;
  bool dependent;
};

int run(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const State& state = kernel.load<State>();
  const NormRegistersConfig& c = state.config;
  const NormCudaParams params = params_of(*state.slots, args);
  const std::int64_t blocks = (params.rows + c.rows - 1) / c.rows;
  cuda::Launch how;
  how.grid.x = static_cast<unsigned>(blocks * c.cluster);
  how.block.x = static_cast<unsigned>(c.threads * c.rows);
  how.cluster = static_cast<unsigned>(c.cluster);
  how.dependent = state.dependent;
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
    const std::int64_t row = accesses(slots, problem),
                       threads = std::int64_t{c.threads} * c.cluster;
    return c.vectors == vectors_for(row, threads) &&
           (c.threads == kFewestThreads || threads < 2 * row) &&
           (!c.last || may_be_last(slots, problem, device)) &&
           valid(traits_with(slots, problem, c), c, device.arch);
  }

  /// `c` with the vectors that hold the row, no more than `most`; does it fit?
  static bool complete(const Slots& slots, const Problem& problem, const DeviceInfo& device,
                       int most, NormRegistersConfig& c) {
    c.vectors = vectors_for(accesses(slots, problem), std::int64_t{c.threads} * c.cluster);
    return c.vectors > 0 && c.vectors <= most && fits(slots, problem, c, device);
  }

  /// The fewest threads that hold the row in few vectors, else in many; vectors = 0: none does. As
  /// measured with bf16 on H200, 2026-11-21: 1×4096 and 128×4096 256 threads × 2 vectors;
  /// 4096×4096, 16384×4096 128 × 4 × 4 rows; 16384×8192 256 × 4 × 2; with `add` 256 × 2 × 2 and
  /// 512 × 2; 262144×64 … 65536×256 4, 8, 16 × 2 in blocks of 128, with `add` 8, 16, 32 × 1: all
  /// within 2 % of the best found.
  static NormRegistersConfig pick_block(const Slots& slots, const Problem& problem,
                                        const DeviceInfo& device) {
    const bool few = problem.dims[kT] <= 2 * device.units;
    const bool brief = accesses(slots, problem) <= 64;
    const int wanted = few ? 2 : (brief ? 2 : 4) / (slots.adds() ? 2 : 1);
    NormRegistersConfig c;
    for (const int most : {wanted, 4, 16}) {
      for (const std::int64_t threads : kTable().knobs()[0].values) {
        c.threads = static_cast<std::int32_t>(threads);
        c.rows = std::clamp((few ? 32 : brief ? 128 : 512) / c.threads, 1, 32);
        if (!complete(slots, problem, device, most, c)) continue;
        c.last = may_be_last(slots, problem, device);
        // Rows that end within an access take more registers: only small blocks fill them all.
        if (!traits_with(slots, problem, c).full)
          c.rows = std::min(c.rows, std::clamp(128 / c.threads, 1, 32));
        return c;
      }
    }
    c.vectors = 0;
    return c;
  }
  /// Small blocks of many vectors, in µs with bf16 on H200, 2026-11-22: 1024×65536 with 128 threads
  /// × 8 vectors × 8 blocks 66.3, with 256 × 4 × 8 74; 256×262144 with 128 × 16 × 16 70.5, with 256
  /// × 8 × 16 86. With `add`, twice the registers: 256 × 8 × 16 129.7, 512 × 4 × 16 129.
  static NormRegistersConfig pick_cluster(const Slots& slots, const Problem& problem,
                                          const DeviceInfo& device) {
    NormRegistersConfig c;
    c.rows = 1;
    c.last = may_be_last(slots, problem, device);
    const auto found = [&](std::int64_t threads, int most) {
      c.threads = static_cast<std::int32_t>(threads);
      for (c.cluster = 2; c.cluster <= 16; c.cluster *= 2)
        if (complete(slots, problem, device, most, c)) return true;
      return false;
    };
    const std::vector<std::int64_t>& all = kTable().knobs()[0].values;
    if (!slots.adds() && (found(all[0], 8) || found(all[0], 16))) return c;
    for (const int most : {8, 16})
      for (const std::int64_t threads : all)
        if (found(threads, most)) return c;
    c.vectors = 0;
    return c;
  }
  static NormRegistersConfig pick(const Slots& slots, const Problem& problem,
                                  const DeviceInfo& device) {
    return kCluster ? pick_cluster(slots, problem, device) : pick_block(slots, problem, device);
  }

  static Support supports(const Slots& slots, const Problem& problem, const DeviceInfo& device) {
    if (const Support rows = supports_rows(slots, problem); !rows) return rows;
    if (problem.dims[kT] > kMaxGrid / 16) return Support::no("more than {} rows", kMaxGrid / 16);
    if (kCluster && accesses(slots, problem) < kLeastShared)
      return Support::no("a row has {} accesses; fewer than {} are not worth sharing",
                         accesses(slots, problem), kLeastShared);
    if (pick(slots, problem, device).vectors == 0)
      return Support::no("a row has {} accesses; more than the threads' registers hold",
                         accesses(slots, problem));
    return Support::yes();
  }

  static void constrain(const Slots& slots, const Problem& problem, const DeviceInfo& device,
                        Space& space) {
    std::vector<std::string_view> all;
    for (const Knob& knob : kTable().knobs()) all.push_back(knob.name);
    space.require("the vectors hold the row, no fewer would, and the block has room for them", all,
                  [slots, problem, device](const Config& config) {
                    return fits(slots, problem, restore(config), device);
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
    // bf16 on H200, 2026-11-22: 1024×65536 takes 66.3 µs, where a copy takes 65. With few blocks a
    // multiprocessor, reads and writes take turns: 256×262144 takes 70.5 with three and 86 with
    // two; less so where two tensors are read and two written (129, as a copy).
    const int blocks = norm_blocks(traits_with(slots, problem, c), c);
    const double turns = slots.adds() || blocks > 3 ? 1.03 : blocks == 3 ? 1.09 : 1.28;
    const double share = kCluster ? turns : 1.0, meeting = kCluster ? 1e-3 : 0;
    const double last = !c.last ? 1.0 : slots.adds() ? 0.96 : 0.985;
    return meeting + model_ms(share * last * bytes_of(slots, problem), problem,
                              static_cast<double>(device.units) / c.cluster, device);
  }

  static Kernel prepare(const Slots& slots, const Problem&, const Config& config,
                        const DeviceInfo& device) {
    Kernel kernel;
    kernel.store(State{&slots, restore(config), can_depend(device)});
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
