// cuda_shared and cuda_rows: a row a block (or a cluster) in two passes, h kept in shared memory
// between them, or read again. In: Problem, Config. Out: Kernel and its one source; then the
// launch. Flow: call > validate > [select] > [compile] > [launch]. Read next:
// ops/norm/norm_block.cuh (the kernel).
#include <algorithm>

#include "core/error.hpp"
#include "generated/source_hashes.hpp"
#include "ops/norm/norm_cuda.hpp"

namespace dlblas::norm {
namespace {

/// Beside h: the slots of the sums.
constexpr std::int64_t kStaticShared = 1024;
constexpr std::int64_t kMaxBlocks = (std::int64_t{1} << 31) - 1;

using Table = ConfigTable<NormBlockConfig>;
const Table& shared_table() {
  static const auto* table = new Table{
      field<&NormBlockConfig::threads>("threads", {128, 256, 512, 1024}),
      field<&NormBlockConfig::vectors>("vectors", {2, 4}),
      field<&NormBlockConfig::cluster>("cluster", {1, 2, 4, 8}),
      field<&NormBlockConfig::keep>("keep", {1}),
  };
  return *table;
}
const Table& rows_table() {
  static const auto* table = new Table{
      field<&NormBlockConfig::threads>("threads", {128, 256, 512, 1024}),
      field<&NormBlockConfig::vectors>("vectors", {2, 4}),
      field<&NormBlockConfig::cluster>("cluster", {1}),
      field<&NormBlockConfig::keep>("keep", {0}),
  };
  return *table;
}

/// What `prepare` leaves for the calls.
struct State {
  const Slots* slots;
  NormBlockConfig config;
  std::int32_t shared_bytes;
  bool dependent;
};

/// Bytes of h that a block keeps.
std::int64_t kept_bytes(const Slots& slots, const Problem& problem, const NormBlockConfig& c) {
  if (!c.keep) return 0;
  const NormCudaTraits traits = traits_of(slots, problem);
  const std::int64_t share = (accesses(slots, problem) + c.cluster - 1) / c.cluster;
  return share * std::max(4, norm_elements(traits) * size_of(traits.type));
}

int run(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const State& state = kernel.load<State>();
  const NormCudaParams params = params_of(*state.slots, args);
  cuda::Launch how;
  how.grid.x = static_cast<unsigned>(params.rows * state.config.cluster);
  how.block.x = static_cast<unsigned>(state.config.threads);
  how.shared_bytes = static_cast<unsigned>(state.shared_bytes);
  how.cluster = static_cast<unsigned>(state.config.cluster);
  how.dependent = state.dependent;
  return cuda::launch(*kernel.entries[0], how, params, context.stream);
}

/// Which of the two it is follows from the table.
template <const Table& (*kTable)()>
struct Blocks {
  static constexpr bool kKeep = kTable == shared_table;

  static std::int64_t room(const DeviceInfo& device) {
    return device.shared_bytes_per_block - kStaticShared;
  }
  static bool fits(const Slots& slots, const Problem& problem, const NormBlockConfig& c,
                   const DeviceInfo& device) {
    return kept_bytes(slots, problem, c) <= room(device) &&
           valid(traits_of(slots, problem), c, device.arch);
  }

  /// The smallest cluster that leaves two blocks room on a multiprocessor, else that fits at all.
  static NormBlockConfig pick(const Slots& slots, const Problem& problem,
                              const DeviceInfo& device) {
    NormBlockConfig c;
    c.keep = kKeep;
    const std::int64_t row = accesses(slots, problem);
    for (const std::int64_t share : {room(device) / 2, room(device)}) {
      for (c.cluster = 1; c.cluster <= (kKeep ? 8 : 1); c.cluster *= 2) {
        const std::int64_t part = row / c.cluster;
        c.threads = part >= 4096 ? 1024 : part >= 2048 ? 512 : part >= 1024 ? 256 : 128;
        for (c.vectors = 4; c.vectors >= 2; c.vectors /= 2)
          if (kept_bytes(slots, problem, c) <= share && fits(slots, problem, c, device)) return c;
      }
    }
    c.threads = 0;
    return c;
  }

  static Support supports(const Slots& slots, const Problem& problem, const DeviceInfo& device) {
    if (const Support rows = supports_rows(slots, problem); !rows) return rows;
    if (problem.dims[kT] > kMaxBlocks / 8) return Support::no("more than {} rows", kMaxBlocks / 8);
    if (pick(slots, problem, device).threads == 0)
      return Support::no("a row has {} accesses; more than shared memory holds",
                         accesses(slots, problem));
    return Support::yes();
  }

  static void constrain(const Slots& slots, const Problem& problem, const DeviceInfo& device,
                        Space& space) {
    space.require("what a block keeps and has in flight fits its shared memory and registers",
                  {"threads", "vectors", "cluster", "keep"},
                  [slots, problem, device](const Config& config) {
                    return fits(slots, problem, kTable().restore(config), device);
                  });
  }

  static Config heuristic(const Slots& slots, const Problem& problem, const DeviceInfo& device) {
    return kTable().erase(pick(slots, problem, device));
  }

  static double estimate(const Slots& slots, const Problem& problem, const Config& config,
                         const DeviceInfo& device) {
    const NormBlockConfig c = kTable().restore(config);
    const std::int64_t kept = kept_bytes(slots, problem, c);
    // One block on a multiprocessor reads and writes in turn; a second read comes from L2. bf16 on
    // H200, 2026-11-22: over a cluster, 1024×65536 and 256×262144 take 1.43 and 1.58 times a copy,
    // with `add` 1.07 and 1.13.
    const double clustered = slots.adds() ? 1.13 : 1.5;
    const double kept_share = kept > room(device) / 2 ? 1.2 : 1.08;
    const double share = !kKeep          ? 1.3
                         : c.cluster > 1 ? std::max(clustered, kept_share)
                                         : kept_share;
    return model_ms(share * bytes_of(slots, problem), problem,
                    static_cast<double>(device.units) / c.cluster, device);
  }

  static Kernel prepare(const Slots& slots, const Problem& problem, const Config& config,
                        const DeviceInfo& device) {
    const NormBlockConfig c = kTable().restore(config);
    Kernel kernel;
    kernel.store(State{&slots, c, static_cast<std::int32_t>(kept_bytes(slots, problem, c)),
                       can_depend(device)});
    kernel.steps[0] = run;
    kernel.num_steps = 1;
    return kernel;
  }

  static std::vector<KernelSource> sources(const Slots& slots, const Problem& problem,
                                           const Config& config, const DeviceInfo&) {
    const NormBlockConfig c = kTable().restore(config);
    return {{"ops/norm/norm_block.cuh",
             text("dlblas::norm_block<", literal(traits_of(slots, problem)), ", ",
                  kTable().literal(config, "dlblas::NormBlockConfig"), ">"),
             static_cast<std::int32_t>(kept_bytes(slots, problem, c))}};
  }

  static CudaKernel kernel() {
    return {kKeep ? "cuda_shared" : "cuda_rows",
            80,
            source_hash("ops/norm/norm_block_cuda.cpp"),
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

const CudaKernel& cuda_shared() {
  static const CudaKernel kernel = Blocks<shared_table>::kernel();
  return kernel;
}
const CudaKernel& cuda_rows() {
  static const CudaKernel kernel = Blocks<rows_table>::kernel();
  return kernel;
}

}  // namespace dlblas::norm
