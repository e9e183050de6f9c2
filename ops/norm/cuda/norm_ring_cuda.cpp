// cuda_ring: long rows streamed through shared memory by persistent blocks. The blocks of a row
// exchange sums through a workspace, so all must run at the same time: a cooperative launch.
// In: Problem, Config. Out: Kernel and its sources; then the launch. Flow: call > validate >
// [select] > [compile] > [launch].  Read next: ops/norm/cuda/norm_ring.cuh (the kernel).
#include <algorithm>

#include "core/error.hpp"
#include "core/source_hash.hpp"
#include "ops/norm/cuda/norm_cuda.hpp"

namespace dlblas::norm {
namespace {

constexpr std::int64_t kMinAccesses = 2048;
constexpr std::int64_t kMaxRows = 1 << 30;
constexpr std::int32_t kRingVectors[] = {2, 4, 8, 16};
/// Fewest accesses of a row per block: below, more blocks are not worth their synchronisation.
constexpr std::int64_t kMinPart = 2048;

std::int32_t ring_vectors(std::int64_t accesses, std::int64_t threads) {
  for (std::int32_t vectors : kRingVectors)
    if (vectors * threads >= accesses) return vectors;
  return 0;
}

/// Groups of blocks that run concurrently.
std::int64_t groups_of(const NormRingConfig& c, std::int32_t units) { return units / c.blocks; }

/// The smallest number of groups that needs no more rounds than `most` groups.
std::int64_t balanced(std::int64_t rows, std::int64_t most) {
  const std::int64_t rounds = (rows + most - 1) / most;
  return (rows + rounds - 1) / rounds;
}

struct Ring : NormForm<NormRingConfig> {
  static constexpr std::int32_t kMinArch = 90;
  static constexpr const char* kInclude = "ops/norm/cuda/norm_ring.cuh";
  static constexpr const char* kEntry = "dlblas::norm::norm_ring";
  static constexpr const char* kConfigName = "dlblas::norm::NormRingConfig";
  static const ConfigTable<NormRingConfig>& table() {
    static const auto* knobs = new ConfigTable<NormRingConfig>{
        field<&NormRingConfig::threads>("threads", {256, 512}),
        field<&NormRingConfig::vectors>("vectors", {2, 4, 8, 16}),
        field<&NormRingConfig::step>("step", {2, 4}),
        field<&NormRingConfig::blocks>("blocks", {2, 4, 8, 16, 32, 64, 128}),
        field<&NormRingConfig::depth>("depth", {1, 2, 3, 4}),
    };
    return *knobs;
  }

  static NormCudaTraits traits(const Query& q, const NormRingConfig& c) {
    NormCudaTraits traits = traits_of(q);
    traits.full = std::int64_t{c.threads} * c.vectors * c.blocks * norm_elements(traits) ==
                  q.problem.dims[kC];
    return traits;
  }

  static bool fits(const Query& q, const NormRingConfig& c) {
    const std::int64_t part = std::int64_t{c.threads} * c.vectors;
    return c.vectors == ring_vectors(accesses(q), std::int64_t{c.threads} * c.blocks) &&
           (part >= kMinPart || c.blocks == 2) && groups_of(c, q.device.units) > 0 &&
           valid(traits_of(q), c, q.device.arch);
  }

  /// Sets the most stages in flight that fit, up to three.
  static bool settle(const Query& q, NormRingConfig* c) {
    for (c->depth = 3; c->depth > 0; --c->depth)
      if (fits(q, *c)) return true;
    return false;
  }

  /// The fewest blocks per row that fit, with up to eight accesses per thread before sixteen.
  /// vectors = 0 if none fit.
  static NormRingConfig preset(const Query& q) {
    NormRingConfig c;
    for (const int most : {8, 16})
      for (c.blocks = 2; c.blocks <= 128; c.blocks *= 2) {
        c.vectors = ring_vectors(accesses(q), std::int64_t{c.threads} * c.blocks);
        if (c.vectors > 0 && c.vectors <= most && settle(q, &c)) return c;
      }
    c.vectors = 0;
    return c;
  }

  static Support supports(const Query& q) {
    if (const Support rows = supports_rows(q); !rows) return rows;
    const NormCudaTraits traits = traits_of(q);
    if (traits.align < 16)
      return Support::no("rows are aligned to {} bytes; whole accesses have 16", traits.align);
    const std::int64_t row = accesses(q);
    if (row < kMinAccesses)
      return Support::no("a row has {} accesses; fewer than {} are not worth a ring", row,
                         kMinAccesses);
    if (q.problem.dims[kT] > kMaxRows) return Support::no("more than {} rows", kMaxRows);
    if (preset(q).vectors == 0)
      return Support::no("a row has {} accesses; more than the device's shared memory holds", row);
    return Support::yes();
  }

  static void constrain(const Query& q, Space& space) {
    space.require(table(), "the threads' vectors hold the row, and no fewer would",
                  {"threads", "vectors", "blocks"}, [row = accesses(q)](const NormRingConfig& c) {
                    return c.vectors == ring_vectors(row, std::int64_t{c.threads} * c.blocks);
                  });
    space.require(table(), "the ring fits the block's shared memory and registers",
                  [q = QueryCopy(q)](const NormRingConfig& c) { return fits(q, c); });
  }

  static double milliseconds(const Query& q, const NormRingConfig& c) {
    // 256×262144 and 16×4194304 with bf16 on H200, 2026-11-21: 75 and 142 µs, copies 65 and 130.
    const double share = q.user<NormTensors>().adds() ? 1.08 : 1.12;
    return model_ms(q, share * bytes_of(q), static_cast<double>(groups_of(c, q.device.units)));
  }

  static std::int32_t shared_bytes(const Query&, const State& state) {
    return norm_ring_bytes(state.traits, state.config);
  }
  /// The parts of every row's sum, for the largest number of rows in the Problem's bucket.
  static std::size_t workspace_bytes(const Query& q, const State& state) {
    const std::int32_t blocks = state.config.blocks;
    return static_cast<std::size_t>(q.problem.dims[kT]) * norm_ring_copies(blocks) * blocks *
           sizeof(double);
  }

  static NormRingParams launch(const State& state, const Args& args, void* workspace,
                               cuda::Launch& how) {
    const NormRingConfig& c = state.config;
    NormRingParams params{};
    params.call = params_of(tensors_of(state), args);
    params.parts = static_cast<double*>(workspace);
    const std::int64_t rows = params.call.rows, groups = balanced(rows, groups_of(c, state.units));
    const std::int64_t rounds = (rows + groups - 1) / groups;
    params.rounds = static_cast<std::int32_t>(rounds);
    params.last_round = static_cast<std::int32_t>(rows - (rounds - 1) * groups);
    how.grid.x = static_cast<unsigned>(groups * c.blocks);
    how.block.x = static_cast<unsigned>(c.threads + 32);  // and the warp of sums
    how.cooperative = true;
    return params;
  }
};

}  // namespace

Implementation cuda_ring(const NormTensors& tensors) {
  return kernels::make_cuda<Ring>("cuda_ring", source_hash<"ops/norm/cuda/norm_ring_cuda.cpp">(),
                                  &tensors);
}

}  // namespace dlblas::norm
